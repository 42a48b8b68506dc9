// SPDX-License-Identifier: Apache-2.0
// What session.cpp has in the recorder, where a session's life is not explored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "preload/session/session.hpp"
#include "preload/session/session_state.hpp"

namespace gpumemtrace::preload {

constinit thread_local ThreadState thread_state [[gnu::tls_model("initial-exec")]];
constinit Control control;

Session& the_session() noexcept {
  alignas(Session) static constinit std::byte storage[sizeof(Session)] = {};
  return *std::launder(reinterpret_cast<Session*>(storage));
}
// No scenario asks which hook is the outermost.
bool CallGuard::is_left(std::uintptr_t) noexcept { return false; }

}  // namespace gpumemtrace::preload
