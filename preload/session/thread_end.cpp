// SPDX-License-Identifier: Apache-2.0
#include "preload/session/thread_end.hpp"

#include <pthread.h>

#include "preload/loader/lazy_symbols.hpp"
#include "preload/ring/control.hpp"
#include "preload/ring/writers.hpp"
#include "preload/session/session_state.hpp"

namespace gpumemtrace::preload {
namespace {

constinit pthread_key_t thread_end_key = 0;
constinit bool thread_end_key_made = false;

// Destructor of the thread-specific key: runs after the thread's C++ thread-local objects. What a
// later destructor records takes a writer again, and the key's next round returns that one.
void thread_ends(void* value) noexcept {
  if (!session_exists() || thread_state.session != the_session().id()) return;
  if (thread_state.writer == static_cast<Writer*>(value)) return_writer(the_session().pool);
}

}  // namespace

bool make_thread_end_key() noexcept {
  if (thread_end_key_made) return true;
  // Both are looked for now, and not by a thread that others may wait for.
  thread_end_key_made = libc_pthread_key_create && libc_pthread_setspecific &&
                        libc_pthread_key_create(&thread_end_key, thread_ends) == 0;
  return thread_end_key_made;
}

void return_writer_at_end() noexcept {
  libc_pthread_setspecific(thread_end_key, thread_state.writer);
}

}  // namespace gpumemtrace::preload
