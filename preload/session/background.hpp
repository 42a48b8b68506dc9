// SPDX-License-Identifier: Apache-2.0
// The thread that does a session's work; a second one has the files (preload/base/file_thread.hpp).
// It makes the session, packs sealed chunks, keeps free chunks ready, samples the driver about once
// a second, writes the dictionary entries that others kept for it, and carries out the commands of
// `gpumemtrace ctl`.
#pragma once

namespace gpumemtrace::preload {

// Starts the thread, which first makes the session by `make_session`; false if the system
// refuses.
using MakeSession = bool() noexcept;
[[nodiscard]] bool start_background_thread(MakeSession* make_session) noexcept;
// Waits until that thread needs no lock of the program any more, a tenth of a second at most.
void wait_for_background_thread() noexcept;

}  // namespace gpumemtrace::preload
