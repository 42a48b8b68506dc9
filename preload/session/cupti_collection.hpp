// SPDX-License-Identifier: Apache-2.0
// Our collection of CUPTI's records: when it starts, by what the user wants and what the process
// has loaded, and how the background thread reads it. The rest is cupti/'s. Nothing here loads a
// libcupti but the one that the user names.
#pragma once

namespace gpumemtrace::cupti {
class Library;
struct Recorder;
}  // namespace gpumemtrace::cupti

namespace gpumemtrace::preload {

// The driver is ready and no context exists yet, or none that we know of. Keeps errno.
void start_cupti_collection() noexcept;

// Before each call of the program into a libcupti.
void program_calls_cupti(cupti::Library& library) noexcept;

// What a forked child's parent did with CUPTI means nothing in the child. True where this is one
// that has just been noticed.
[[nodiscard]] bool notice_cupti_fork() noexcept;

// --- The background thread.

// From now on completed buffers are kept for it.
void begin_reading_cupti() noexcept;
// How the collection writes into the trace.
extern const cupti::Recorder kCuptiRecorder;

}  // namespace gpumemtrace::preload
