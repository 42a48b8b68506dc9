// SPDX-License-Identifier: Apache-2.0
#include "preload/session/session_state.hpp"

#include <cstddef>
#include <new>

namespace gpumemtrace::preload {
namespace {

// Not destroyed: threads may record until the process is gone.
alignas(Session) constinit std::byte session_storage[sizeof(Session)] = {};

}  // namespace

Session& the_session() noexcept {
  return *std::launder(reinterpret_cast<Session*>(session_storage));
}

}  // namespace gpumemtrace::preload
