// SPDX-License-Identifier: Apache-2.0
// Searches the calling thread's stack, without the caches of preload/native/unwind_cache.hpp.
//
// Finds out whether a hook is still running on the calling thread. A hook that a signal handler
// jumped out of, or in which its thread was cancelled, is left without a notice to the recorder.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload::native {

enum class HookState {
  kUnderWay,
  kLeft,  // the hook's frame is no longer on the stack
  // The frames cannot be followed as far as the hook's frame: code without unwind tables lies
  // between, or the thread runs on another stack.
  kUnknown,
};

// Finds out whether the hook with this frame pointer is still running on the calling thread, by
// following the frames from the calling function on.
//
// - Any thread, signal handlers too. No lock, no allocation; keeps errno.
// - Callable after choose_module_lookup(). Takes half a microsecond a frame: no rule is remembered.
HookState state_of_hook(std::uint64_t frame_pointer) noexcept;

// True if one of the 16 innermost frames is code of the file that begins at `module_begin`. The
// notes on state_of_hook() apply here, too.
[[nodiscard]] bool is_called_from(std::uint64_t module_begin) noexcept;

}  // namespace gpumemtrace::preload::native
