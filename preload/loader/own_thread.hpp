// SPDX-License-Identifier: Apache-2.0
// Threads of the recorder. They block all signals, so that the program's signals go to the
// program's threads.
#pragma once

namespace gpumemtrace::preload {

// Starts a thread; false if the system refuses. No thread joins the new one: joining waits by a
// futex, for which libc aborts if a sandbox forbids futexes.
[[nodiscard]] bool start_own_thread(void* (*main)(void*)) noexcept;

}  // namespace gpumemtrace::preload
