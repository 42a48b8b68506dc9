// SPDX-License-Identifier: Apache-2.0
// The copies of libcupti in the process, and our collection of CUPTI's records: when it starts (by
// what the user wants and what the process has loaded), and how the background thread reads it.
// cupti/ has the rest. This file loads no libcupti except the one that the user names.
#pragma once

namespace gpumemtrace::cupti {
class Library;
struct Recorder;
}  // namespace gpumemtrace::cupti

namespace gpumemtrace::preload {

// The driver is ready and no context exists yet, or none that we know of. Keeps errno.
void start_cupti_collection() noexcept;

// Called before each call of the program into a libcupti.
void program_calls_cupti(cupti::Library& library) noexcept;

// The parent's use of CUPTI means nothing in a forked child. True if this process is a child that
// has just noticed that.
[[nodiscard]] bool notice_cupti_fork() noexcept;

// --- The background thread.

// From now on completed buffers are kept for it.
void begin_reading_cupti() noexcept;
// Writes the collection's records into the trace.
extern const cupti::Recorder kCuptiRecorder;

// --- The copies of libcupti in the process. Only threads of the program may ask for them: the list
// of files is read under the loader's lock.

// The copy whose file surrounds `address`; nullptr if there is none.
cupti::Library* cupti_library_around(const void* address) noexcept;

// The copy that a call of a linked symbol means: the only one, or the one that the caller's file
// names as needed. nullptr if none is loaded.
cupti::Library* cupti_library_for(const void* caller) noexcept;

struct LoadedCupti {
  cupti::Library* library = nullptr;  // the first
  const char* other = nullptr;  // the second copy's, or Triton's profiler's, which brings its own
};
LoadedCupti look_for_cupti() noexcept;

// Address of a function of that copy; nullptr if it has none of the name.
void* symbol_of(const cupti::Library& library, const char* name) noexcept;
// The loader's text.
const char* path_of(const cupti::Library& library) noexcept;

}  // namespace gpumemtrace::preload
