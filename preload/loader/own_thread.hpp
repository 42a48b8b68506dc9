// SPDX-License-Identifier: Apache-2.0
// Threads of the recorder: all signals blocked, so that the program's go to its own threads.
#pragma once

namespace gpumemtrace::preload {

// False if the system refuses. No thread joins it: joining waits by a futex, for which libc aborts
// if a sandbox forbids futexes.
[[nodiscard]] bool start_own_thread(void* (*main)(void*)) noexcept;

}  // namespace gpumemtrace::preload
