// SPDX-License-Identifier: Apache-2.0
// Where the program meets CUPTI, and where the recorder does:
//
//   - exported cupti* symbols, for objects that are linked to libcupti;
//   - results of dlsym, exchanged by their value for wrappers of that copy of libcupti;
//   - the first cuInit, at which our own collection starts through the process's libcupti.
//
// The rest is cupti/'s. Nothing here loads a libcupti but the one that the user names.
#pragma once

namespace gpumemtrace::preload {

class CallGuard;

// A name that this file answers for.
bool is_cupti_name(const char* name) noexcept;

// What stands for `address`, which dlsym has found by `name`: a wrapper, the same function of the
// copy through which we collect, or `address` itself. `name` is a cupti name.
void* wrap_cupti(void* address, const char* name) noexcept;

// A search of the whole process has found our exported symbol and `behind_us` (may be nullptr) is
// what it would have found without us.
void* answer_cupti_symbol(void* own, void* behind_us, const char* name) noexcept;

// The driver is ready and no context exists yet, or none that we know of. Keeps errno.
void start_cupti_collection() noexcept;

// --- The background thread.

// Only in between are completed buffers kept for it.
void begin_reading_cupti() noexcept;
void end_reading_cupti() noexcept;
// What became of the collection, and of its clock, since the last time.
void write_cupti_notes(const CallGuard& guard) noexcept;
// Asks CUPTI for what it has, `forced` also for activities that are not complete; writes its clock.
void flush_cupti(const CallGuard& guard, bool forced) noexcept;
// One completed buffer; false where there is none. Where `recorded` is false it is let go.
bool read_cupti_buffer(const CallGuard& guard, bool recorded) noexcept;

}  // namespace gpumemtrace::preload
