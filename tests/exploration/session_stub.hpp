// SPDX-License-Identifier: Apache-2.0
// Replaces the recorder's preload/session/ in programs that do not explore a session's life.
#pragma once

#include <cstdint>

#include "preload/ring/call_guard.hpp"

namespace gpumemtrace::preload {

// Always false: no scenario asks which hook is the outermost.
bool CallGuard::is_left(std::uintptr_t) noexcept { return false; }

}  // namespace gpumemtrace::preload
