// SPDX-License-Identifier: Apache-2.0
#include "preload/ring/call_guard.hpp"

#include "preload/native/hook_search.hpp"
#include "preload/ring/control.hpp"
#include "preload/ring/writers.hpp"

namespace gpumemtrace::preload {

bool CallGuard::is_left(std::uintptr_t frame) noexcept {
  // Stacks grow down: a function that the hook calls has its frame below the hook's.
  const std::uintptr_t marked = thread_state.hook_frame;
  if (frame >= marked) return true;
  // Relaxed: if the marked hook belongs to a session, this thread has already seen that session's
  // begin, and does not load kNotStarted.
  if (control.session.load(std::memory_order_relaxed) == kNotStarted) return true;
  const native::HookState state = native::state_of_hook(marked);
  if (state == native::HookState::kUnknown && session_exists()) {
    // Relaxed: a counter, nothing is ordered by it.
    writer_pool->ring.header().calls_taken_for_parts.fetch_add(1, std::memory_order_relaxed);
  }
  return state == native::HookState::kLeft;
}

}  // namespace gpumemtrace::preload
