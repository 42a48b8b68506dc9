// SPDX-License-Identifier: Apache-2.0
// Makes a session: its files, the texts at the start of its trace, its tables, its threads.
#pragma once

namespace gpumemtrace::preload {

// The program's request.
enum class RequestedState { kNone, kRecord, kPause };

// Called on the one thread of the program that won the start. It does the parts that only this
// thread can do. The background thread does the rest, which needs files, and calls start_ends().
// False: there will be no session, and this function has printed why.
[[nodiscard]] bool start_session(RequestedState requested) noexcept;

// Prints the reason why nothing is recorded.
void warn_not_recording(const char* reason) noexcept;

}  // namespace gpumemtrace::preload
