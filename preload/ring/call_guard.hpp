// SPDX-License-Identifier: Apache-2.0
// Knows whether a thread is inside one of our hooks.
#pragma once

#include <cstdint>

#include "preload/ring/thread_state.hpp"

namespace gpumemtrace::preload {

// Marks the thread as being inside one of our hooks. Only the outermost guard records: calls that
// the driver makes inside a call are part of that call.
//
// A longjmp out of a hook, or a thread that is cancelled in one, leaves the mark behind. A guard
// that finds a mark therefore checks whether that hook is still on the stack.
//
// - A function has at most one CallGuard, and none if it is inlined into a function that has one.
class CallGuard {
 public:
  // Inlined, so that the frame address is that of the hook.
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
  // True if the marked hook was left without returning. `frame` is the frame address of the asking
  // function. If the stack does not show whether the hook was left, counts that and returns false.
  [[nodiscard]] static bool is_left(std::uintptr_t frame) noexcept;

  bool outermost_;
};

}  // namespace gpumemtrace::preload
