// SPDX-License-Identifier: Apache-2.0
// The one thread that the recorder adds to a process. It packs sealed chunks, keeps free chunks
// ready, samples the driver about once a second, writes the dictionary entries that others kept for
// it, and carries out what `gpumemtrace ctl` asks.
#pragma once

namespace gpumemtrace::preload {

// Starts the thread; false where the system refuses.
[[nodiscard]] bool start_background_thread() noexcept;

}  // namespace gpumemtrace::preload
