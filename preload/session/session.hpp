// SPDX-License-Identifier: Apache-2.0
// One recording of one process, from its first use of CUDA memory to its end: its marks, its pauses
// and its ends. There is at most one session in a process; a forked child starts its own
// (preload/session/attach.hpp).
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/records.hpp"

namespace gpumemtrace::preload {

class CallGuard;

// Writes a mark for the calling thread, which must be attached; false if dropped.
[[nodiscard]] bool write_mark(trace::MarkKind kind, std::string_view name) noexcept;

// What the session's word is once no start is under way. All together wait for one at most two
// seconds; after that it is kStarting, at once.
std::uint32_t settled_session() noexcept;

// A session was made, or there is none: whoever waits for the start goes on. The background thread.
void start_ends(bool has_session) noexcept;
// Counts calls that were not recorded; of which class is not known here.
void count_unrecorded(std::uint32_t calls) noexcept;

// Pauses the recording or goes on with it; false where that changes nothing.
[[nodiscard]] bool pause_recording(const CallGuard& guard) noexcept;
[[nodiscard]] bool resume_recording(const CallGuard& guard) noexcept;

// Asks for a sample of the driver's numbers soon, for example after an allocation failed. Any
// thread that records; a store, and a system call where the background thread sleeps long.
void request_sample() noexcept;

// The driver may have taken memory by itself, or given some back: contexts, limits, graphs,
// streams, modules. Samples follow soon, at most twenty a second. Any thread, recording or not; a
// load where samples are due already.
void driver_memory_changed() noexcept;

// Gives the background thread its writer; the thread calls this itself.
[[nodiscard]] bool attach_background_thread() noexcept;

// Recording is over for good; the job goes on. Says why once, on stderr and in the trace. For the
// background thread.
void disable(const CallGuard& guard, const char* reason) noexcept;

// The process is about to end (kExit), or to become another program (kExec) unless that fails: mark
// it, and have everything so far packed and sampled. Waits for the background thread, at most a
// second. From signal handlers too, and from children that share our memory (vfork), whose end is
// not ours.
void process_ends(trace::MarkKind mark) noexcept;
// From now on exit() comes here, too; once in a process.
void watch_exit() noexcept;
// The library's own end, after most destructors: pack what came since.
void library_ends() noexcept;

}  // namespace gpumemtrace::preload
