// SPDX-License-Identifier: Apache-2.0
// Threads of the recorder: all signals blocked, so that the program's go to its own threads.
#pragma once

#include <pthread.h>

namespace gpumemtrace::preload {

// False where the system refuses. The caller detaches or joins it.
[[nodiscard]] bool start_own_thread(void* (*main)(void*), pthread_t& thread) noexcept;

}  // namespace gpumemtrace::preload
