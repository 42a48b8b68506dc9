// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/own_thread.hpp"

#include <cstddef>

#include "preload/base/thread_guards.hpp"
#include "preload/loader/lazy_symbols.hpp"

namespace gpumemtrace::preload {
namespace {

// Large enough for the driver and the libraries that the thread calls. A program may have made the
// default stack of threads smaller.
constexpr std::size_t kLeastStackBytes = 1 << 20;

}  // namespace

bool start_own_thread(void* (*main)(void*)) noexcept {
  pthread_attr_t attributes;
  if (!libc_pthread_create || libc_pthread_attr_init(&attributes) != 0) return false;
  std::size_t bytes = 0;
  libc_pthread_attr_getstacksize(&attributes, &bytes);
  if (bytes < kLeastStackBytes) {
    libc_pthread_attr_setstacksize(&attributes, kLeastStackBytes);
  }
  pthread_t thread;
  const SignalsBlocked inherited_by_the_thread;
  const bool started = libc_pthread_create(&thread, &attributes, main, nullptr) == 0;
  libc_pthread_attr_destroy(&attributes);
  if (started) libc_pthread_detach(thread);
  return started;
}

}  // namespace gpumemtrace::preload
