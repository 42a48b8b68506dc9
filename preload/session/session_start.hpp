// SPDX-License-Identifier: Apache-2.0
// Makes a session: its files, its tables, its threads.
#pragma once

namespace gpumemtrace::preload {

// What the program has asked for.
enum class RequestedState { kNone, kRecord, kPause };

// On the one thread of the program that may: begins what calls for that thread, and has the
// background thread do the rest, for which files are needed and which ends in start_ends(). False:
// there will be no session, and this has said why.
[[nodiscard]] bool start_session(RequestedState requested) noexcept;

// Says why nothing is recorded.
void say_not_recording(const char* reason) noexcept;

}  // namespace gpumemtrace::preload
