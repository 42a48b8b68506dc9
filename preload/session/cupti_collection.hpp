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

// Starts the collection if the user wants it. Called when the driver is ready and no context exists
// yet, or none that we know of. Keeps errno.
void start_cupti_collection() noexcept;

// Called before each call of the program into a libcupti.
void program_calls_cupti(cupti::Library& library) noexcept;

// Forgets the parent's use of CUPTI, which means nothing in a forked child. True if this process is
// a forked child and this is the first call in it.
[[nodiscard]] bool notice_cupti_fork() noexcept;

// --- For the background thread.

// Makes the collection keep CUPTI's completed buffers for the background thread from now on.
void begin_reading_cupti() noexcept;
// The functions by which the collection writes CUPTI's records into the trace.
extern const cupti::Recorder kCuptiRecorder;

// --- The copies of libcupti in the process. Only threads of the program may ask for them: the list
// of files is read under the loader's lock.

// The copy of libcupti whose loaded file contains `address`; nullptr if there is none.
cupti::Library* cupti_library_around(const void* address) noexcept;

// The copy of libcupti that `caller` is linked to: the only copy, or the copy that the caller's
// file names as needed, else the first. nullptr if none is loaded.
cupti::Library* cupti_library_for(const void* caller) noexcept;

struct LoadedCupti {
  cupti::Library* library = nullptr;  // the first copy, or the one that the program uses
  const char* other = nullptr;  // path of a second copy, or of Triton's profiler, which opens one
};
LoadedCupti look_for_cupti() noexcept;

// Address of the function `name` in this copy of libcupti; nullptr if it has none of that name.
void* symbol_of(const cupti::Library& library, const char* name) noexcept;
// The path of the copy's file, as the loader names it.
const char* path_of(const cupti::Library& library) noexcept;

}  // namespace gpumemtrace::preload
