// SPDX-License-Identifier: Apache-2.0
// Whether a thread is inside one of our hooks.
#pragma once

#include <cstdint>

#include "preload/ring/thread_state.hpp"

namespace gpumemtrace::preload {

// Marks the thread as being inside one of our hooks. Only the outermost guard records: what the
// driver calls inside a call is that call's business.
//
// A longjmp out of a hook, or a thread that is cancelled in one, leaves the mark behind. A guard
// that finds a mark therefore looks whether that hook is still on the stack.
//
// - At most one in a function, and none in a function that is inlined into one with a guard.
class CallGuard {
 public:
  // Into the function whose frame it is about.
  [[gnu::always_inline]] CallGuard() noexcept {
    const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    ThreadState& state = thread_state;
    outermost_ = state.hook_frame == 0 || is_left(frame);
    if (outermost_) [[likely]]
      state.hook_frame = frame;
  }
  ~CallGuard() {
    if (outermost_) [[likely]]
      thread_state.hook_frame = 0;
  }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

  [[nodiscard]] bool outermost() const noexcept { return outermost_; }

 private:
  // Whether the marked hook never returned. `frame` is that of the function that asks. Where the
  // stack does not tell, the answer is no, and counted.
  [[nodiscard]] static bool is_left(std::uintptr_t frame) noexcept;

  bool outermost_;
};

}  // namespace gpumemtrace::preload
