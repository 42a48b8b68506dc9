// SPDX-License-Identifier: Apache-2.0
// The begin of a session, and the background thread that does its work. A session begins when a
// thread is about to record a call that may start one (attach_thread() of preload/ring/control.hpp
// leads here).
#pragma once

namespace gpumemtrace::preload {

class CallGuard;

// The program's last request, through gpumemtrace_start() or gpumemtrace_stop().
enum class RequestedState { kNone, kRecord, kPause };

// Called on the one thread of the program that starts the session. It does the parts that only this
// thread can do. The background thread does the rest, which needs files, and calls start_ends().
// False: there will be no session, and this function has printed why.
[[nodiscard]] bool start_session(RequestedState requested) noexcept;

// Prints the reason why nothing is recorded.
void warn_not_recording(const char* reason) noexcept;

// Resumes or pauses the recording, as the program wants. The request also decides whether a session
// that is still to start begins paused.
void request_recording(const CallGuard& guard, bool wanted) noexcept;

// The background thread makes the session, packs sealed chunks, keeps free chunks ready, samples
// the driver about once a second, writes the suppressions that other threads kept for it, and
// carries out the commands of `gpumemtrace ctl`. Another thread accesses the files
// (preload/base/file_thread.hpp).
//
// This function starts the background thread, which first makes the session by `make_session`;
// false if the system refuses.
using MakeSession = bool() noexcept;
[[nodiscard]] bool start_background_thread(MakeSession* make_session) noexcept;
// Waits until the background thread needs no lock of the program any more, at most 0.1 s.
void wait_for_background_thread() noexcept;

}  // namespace gpumemtrace::preload
