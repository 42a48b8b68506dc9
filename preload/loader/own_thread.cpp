// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/own_thread.hpp"

#include <cstddef>

#include "preload/base/signals_blocked.hpp"
#include "preload/loader/lazy_symbols.hpp"

namespace gpumemtrace::preload {

namespace {

// For the driver and for libraries that are asked on the thread, too. A program may have made the
// usual stack smaller.
constexpr std::size_t kLeastStackBytes = 1 << 20;

int create_thread(void* (*main)(void*), pthread_t& thread) noexcept {
  pthread_attr_t attributes;
  int error = libc_pthread_attr_init(&attributes);
  if (error != 0) return error;
  std::size_t bytes = 0;
  libc_pthread_attr_getstacksize(&attributes, &bytes);
  if (bytes < kLeastStackBytes) {
    libc_pthread_attr_setstacksize(&attributes, kLeastStackBytes);
  }
  error = libc_pthread_create(&thread, &attributes, main, nullptr);
  libc_pthread_attr_destroy(&attributes);
  return error;
}

}  // namespace

bool start_own_thread(void* (*main)(void*), pthread_t& thread) noexcept {
  if (!libc_pthread_create) return false;
  const SignalsBlocked inherited_by_the_thread;
  return create_thread(main, thread) == 0;
}

}  // namespace gpumemtrace::preload
