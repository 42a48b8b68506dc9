// SPDX-License-Identifier: Apache-2.0
// What other parts ask of the background thread.
#pragma once

namespace gpumemtrace::preload {

// Asks for a sample of the driver's numbers soon, for example after an allocation failed. Any
// thread, one store.
void want_sample() noexcept;

// Gives the background thread its writer; the thread calls this itself.
bool attach_background_thread() noexcept;

}  // namespace gpumemtrace::preload
