// SPDX-License-Identifier: Apache-2.0
// Begins a session: when a thread comes to record (attach_thread() of preload/ring/control.hpp
// leads here), or when the program asks for it.
#pragma once

namespace gpumemtrace::preload {

class CallGuard;

// The program wants the recording to go on, or to pause. That also decides whether a session that
// is still to start begins paused.
void request_recording(const CallGuard& guard, bool wanted) noexcept;

}  // namespace gpumemtrace::preload
