// SPDX-License-Identifier: Apache-2.0
// What the frames above a hook tell, where no walk remembers them.
//
// Whether a hook is still being carried out on the calling thread. One that a signal handler jumped
// out of, or in which its thread was cancelled, is not, and nothing has told the recorder so.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload::native {

enum class HookState {
  kUnderWay,
  kLeft,  // the thread's frames go past the place where the hook's frame was
  // They cannot be followed up to there: code without unwind tables lies between, or the thread
  // runs on another stack.
  kUnknown,
};

// Follows the frames from the calling function on. `frame_pointer` is the hook's.
//
// - Any thread, signal handlers too. No lock, no allocation; keeps errno.
// - After choose_module_lookup(). Half a microsecond a frame: nothing is remembered.
HookState state_of_hook(std::uint64_t frame_pointer) noexcept;

// Whether one of the nearest frames is code of the file that begins there; likewise.
[[nodiscard]] bool is_called_from(std::uint64_t module_begin) noexcept;

}  // namespace gpumemtrace::preload::native
