// SPDX-License-Identifier: Apache-2.0
// Makes a session: its files, its tables, the background thread.
#pragma once

namespace gpumemtrace::preload {

// What the program has asked for.
enum class RequestedState { kNone, kRecord, kPause };

// On the one thread that may. False: there is none, and this has said why.
[[nodiscard]] bool start_session(RequestedState requested) noexcept;

// Says why nothing is recorded.
void say_not_recording(const char* reason) noexcept;

}  // namespace gpumemtrace::preload
