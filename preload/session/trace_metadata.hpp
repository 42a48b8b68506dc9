// SPDX-License-Identifier: Apache-2.0
// What stands at the start of every trace.
#pragma once

namespace gpumemtrace::preload {

struct Session;

// Texts about the process, names of all wrapped functions, contexts that exist: packed straight
// into the new file as the first span of writer 0. 0 or an errno value.
[[nodiscard]] int write_trace_metadata(Session& session) noexcept;

}  // namespace gpumemtrace::preload
