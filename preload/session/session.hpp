// SPDX-License-Identifier: Apache-2.0
// One recording of one process: from its first use of CUDA memory to its end. Owns the ring, the
// writers and the background thread. There is at most one session in a process; a forked child
// starts its own.
//
// Life of `control.session` (one word, read by every hook):
//
//   kNotStarted --start()--> kStarting --> id of the session <--> kPaused --> kOff
//
// The word lies in memory that the kernel wipes in a forked child (MADV_WIPEONFORK), so a child,
// whichever way it was made, finds kNotStarted and never touches its parent's ring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/ring/thread_state.hpp"
#include "trace/records.hpp"
#include "trace/ring_layout.hpp"

namespace gpumemtrace::preload {

class CallGuard;

inline constexpr std::uint32_t kNotStarted = 0;
inline constexpr std::uint32_t kStarting = 1;
inline constexpr std::uint32_t kPaused = 2;
inline constexpr std::uint32_t kOff = 3;
inline constexpr std::uint32_t kFirstSessionId = 16;

// Whole pages of its own: 64-bit Arm kernels may have pages of 64 KiB.
#if defined(__aarch64__)
inline constexpr std::size_t kControlBytes = 65536;
#else
inline constexpr std::size_t kControlBytes = 4096;
#endif
struct alignas(kControlBytes) Control {
  std::atomic<std::uint32_t> session = kNotStarted;
  char rest[kControlBytes - sizeof(std::atomic<std::uint32_t>)] = {};
};
extern constinit Control control;

// Makes the calling thread ready to record: starts the session where `may_start` and none was
// started, gives the thread a writer. False: nothing is to be recorded. Slow path; keeps errno.
bool attach_thread(bool may_start) noexcept;

// Writes a mark for the calling thread, which must be attached; false if dropped.
bool write_mark(trace::MarkKind kind, std::string_view name) noexcept;

// Pauses the recording or goes on with it; false where that changes nothing.
bool pause_recording(const CallGuard& guard) noexcept;
bool resume_recording(const CallGuard& guard) noexcept;
// The same as the program's own wish, which also decides whether a session that is still to start
// begins paused.
void want_recording(const CallGuard& guard, bool wanted) noexcept;

// Recording is over for good; the job goes on. Says why once, on stderr and in the trace. For the
// background thread.
void disable(const CallGuard& guard, const char* reason) noexcept;

// The process is about to end (kExit), or to become another program (kExec) unless that fails: mark
// it, and have everything so far packed and sampled. Waits for the background thread, at most a
// second. From signal handlers too, and from children that share our memory (vfork), whose end is
// not ours.
void ending_comes(trace::MarkKind mark) noexcept;
// The library's own end, after most destructors: pack what came since.
void library_ends() noexcept;

// True from start to the end of the process, paused or not.
bool session_exists() noexcept;

}  // namespace gpumemtrace::preload
