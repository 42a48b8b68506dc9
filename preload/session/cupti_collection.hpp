// SPDX-License-Identifier: Apache-2.0
// Our collection of CUPTI's records: when it starts, by what the user wants and what the process
// has loaded, and how the background thread reads it. The rest is cupti/'s. Nothing here loads a
// libcupti but the one that the user names.
#pragma once

namespace gpumemtrace::cupti {
class Library;
}

namespace gpumemtrace::preload {

class CallGuard;

// The driver is ready and no context exists yet, or none that we know of. Keeps errno.
void start_cupti_collection() noexcept;

// Before each call of the program into a libcupti.
void program_calls_cupti(cupti::Library& library) noexcept;

// What a forked child's parent did with CUPTI means nothing in the child. True where this is one
// that has just been noticed.
[[nodiscard]] bool notice_cupti_fork() noexcept;

// --- The background thread.

// Only in between are completed buffers kept for it.
void begin_reading_cupti() noexcept;
void end_reading_cupti() noexcept;
// What became of the collection, and of its clock, since the last time.
void write_cupti_notes(const CallGuard& guard) noexcept;
// Asks CUPTI for what it has, `forced` also for activities that are not complete; writes its clock.
void flush_cupti(const CallGuard& guard, bool forced) noexcept;
// One completed buffer; false where there is none. Where `recorded` is false it is let go.
[[nodiscard]] bool read_cupti_buffer(const CallGuard& guard, bool recorded) noexcept;

}  // namespace gpumemtrace::preload
