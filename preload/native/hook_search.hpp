// SPDX-License-Identifier: Apache-2.0
// Searches the frames above a hook, without a remembered walk.
//
// Finds out whether a hook is still running on the calling thread. A hook that a signal handler
// jumped out of, or in which its thread was cancelled, is left without a notice to the recorder.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload::native {

enum class HookState {
  kUnderWay,
  kLeft,  // the thread's frames go past the place where the hook's frame was
  // The frames cannot be followed up to the hook's: code without unwind tables lies between, or the
  // thread runs on another stack.
  kUnknown,
};

// Follows the frames from the calling function on. `frame_pointer` is that of the hook.
//
// - Any thread, signal handlers too. No lock, no allocation; keeps errno.
// - Callable after choose_module_lookup(). Takes half a microsecond a frame: no rule is remembered.
HookState state_of_hook(std::uint64_t frame_pointer) noexcept;

// True if one of the nearest frames is code of the file that begins at `module_begin`. The
// conditions of state_of_hook() hold.
[[nodiscard]] bool is_called_from(std::uint64_t module_begin) noexcept;

}  // namespace gpumemtrace::preload::native
