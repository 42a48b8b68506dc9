// SPDX-License-Identifier: Apache-2.0
// The thread that does a session's work; a second one has the files (preload/base/file_thread.hpp).
// It makes the session, packs sealed chunks, sees to free chunks, samples the
// driver about once a second, writes the dictionary entries that others kept for it, and carries
// out what `gpumemtrace ctl` asks.
#pragma once

namespace gpumemtrace::preload {

// Starts the thread, which first makes the session by `make_session`; false where the system
// refuses.
using MakeSession = bool() noexcept;
[[nodiscard]] bool start_background_thread(MakeSession* make_session) noexcept;
// Until it waits for no lock of the program any more, a tenth of a second at most.
void wait_for_background_thread() noexcept;

}  // namespace gpumemtrace::preload
