// The files mapped into the process, as records: addresses of callers mean something only with
// them. Background thread, and the thread that starts the recording.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

class CallGuard;
class LoaderList;

// Writes a Module record for every loaded file that was not written yet, and one for each that is
// gone. Cheap where nothing was loaded or unloaded since the last call.
void record_modules(const CallGuard& guard, LoaderList& modules) noexcept;

// Forgets what was written: a new recording writes all again.
void forget_modules() noexcept;

}  // namespace gpumemtrace::preload
