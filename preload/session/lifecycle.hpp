// SPDX-License-Identifier: Apache-2.0
// The begin of a session, and the thread that does its work. A session begins when a thread comes
// to record (attach_thread() of preload/ring/control.hpp leads here), or when the program asks for
// it.
#pragma once

namespace gpumemtrace::preload {

class CallGuard;

// The program's request.
enum class RequestedState { kNone, kRecord, kPause };

// Called on the one thread of the program that won the start. It does the parts that only this
// thread can do. The background thread does the rest, which needs files, and calls start_ends().
// False: there will be no session, and this function has printed why.
[[nodiscard]] bool start_session(RequestedState requested) noexcept;

// Prints the reason why nothing is recorded.
void warn_not_recording(const char* reason) noexcept;

// The program wants the recording to go on, or to pause. That also decides whether a session that
// is still to start begins paused.
void request_recording(const CallGuard& guard, bool wanted) noexcept;

// The background thread makes the session, packs sealed chunks, keeps free chunks ready, samples
// the driver about once a second, writes the dictionary entries that others kept for it, and
// carries out the commands of `gpumemtrace ctl`. A second one has the files
// (preload/base/file_thread.hpp).
//
// Starts the thread, which first makes the session by `make_session`; false if the system
// refuses.
using MakeSession = bool() noexcept;
[[nodiscard]] bool start_background_thread(MakeSession* make_session) noexcept;
// Waits until that thread needs no lock of the program any more, a tenth of a second at most.
void wait_for_background_thread() noexcept;

}  // namespace gpumemtrace::preload
