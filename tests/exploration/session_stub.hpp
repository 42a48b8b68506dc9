// SPDX-License-Identifier: Apache-2.0
// What preload/session/ has in the recorder, where a session's life is not explored.
#pragma once

#include <cstdint>

#include "preload/ring/call_guard.hpp"

namespace gpumemtrace::preload {

// No scenario asks which hook is the outermost.
bool CallGuard::is_left(std::uintptr_t) noexcept { return false; }

}  // namespace gpumemtrace::preload
