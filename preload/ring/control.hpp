// SPDX-License-Identifier: Apache-2.0
// The atomic word that every hook reads: whether there is a recording, and the id of its session.
//
// Life of `control.session`:
//
//   kNotStarted --start()--> kStarting --> id of the session <--> kPaused --> kOff
//
// The words lie in memory that the kernel wipes in a forked child (MADV_WIPEONFORK), so a child,
// whichever way it was made, finds kNotStarted and never touches its parent's ring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/ring/thread_state.hpp"

namespace gpumemtrace::preload {

inline constexpr std::uint32_t kNotStarted = 0;
inline constexpr std::uint32_t kStarting = 1;
inline constexpr std::uint32_t kPaused = 2;
inline constexpr std::uint32_t kOff = 3;
inline constexpr std::uint32_t kFirstSessionId = 16;

// `Control` has whole pages of its own; 64-bit Arm kernels may have pages of 64 KiB.
#if defined(__aarch64__)
inline constexpr std::size_t kControlBytes = 65536;
#else
inline constexpr std::size_t kControlBytes = 4096;
#endif
struct alignas(kControlBytes) Control {
  std::atomic<std::uint32_t> session = kNotStarted;
  // True if the session's start takes so long that threads no longer wait for it; `missed` counts
  // the calls that were not recorded for that reason.
  std::atomic<bool> start_is_slow = false;
  std::atomic<std::uint32_t> missed = 0;
};
extern constinit Control control [[gnu::visibility("hidden")]];

// True once the session has started, until the process or the recording ends; also while paused.
[[nodiscard]] inline bool session_exists() noexcept {
  const std::uint32_t session = control.session.load();
  return session == kPaused || session >= kFirstSessionId;
}

// Makes the calling thread ready to record: starts the session if `may_start` and none was started,
// gives the thread a writer. False: nothing is to be recorded. Slow path; keeps errno.
//
// preload/session/attach.cpp implements attach_thread(), and installs its function once, before any
// thread records.
using AttachThread = bool(bool may_start) noexcept;
void install_attach_thread(AttachThread* attach) noexcept;
[[nodiscard]] bool attach_thread(bool may_start) noexcept;

// True if the calling thread may record now.
[[nodiscard]] inline bool recording(bool may_start) noexcept {
  const std::uint32_t session = control.session.load(std::memory_order_relaxed);
  // Relaxed: whatever the session owns is reached through the thread's writer, which
  // attach_thread() got with acquire order.
  if (thread_state.session == session) [[likely]]  // mutant: session_of_parent
    return true;
  return attach_thread(may_start);
}

// The background thread's sleep between its rounds. Most work waits for the next round; work that
// cannot wait out a pause ends it:
//
//   background thread                         any other thread
//     announces its pause                       leaves work
//     checks once more for work                 wake_if_asleep()
//     sleep()
//
// The thread whose store comes second sees the other thread's store.
class BackgroundWake {
 public:
  // Ends the background thread's pause, also a pause that is about to begin. Any thread may call
  // wake(), which makes a system call and keeps errno.
  void wake() noexcept;
  // Calls wake() if a pause has been announced; otherwise costs one atomic load.
  void wake_if_asleep() noexcept {
    if (is_announced_.load()) [[unlikely]]
      wake();
  }

  // --- For the background thread.

  // The number of wakes so far, an argument of sleep(): a later wake() ends that sleep.
  std::uint32_t count() const noexcept { return count_.load(); }
  void announce(bool pause) noexcept { is_announced_.store(pause); }
  // Sleeps `ns` nanoseconds, or not at all if a wake() came since count() returned `count`; then
  // takes back the announcement of the pause.
  void sleep(std::uint32_t count, long ns) noexcept;

 private:
  std::atomic<std::uint32_t> count_ = 0;
  std::atomic<bool> is_announced_ = false;
};
extern constinit BackgroundWake background_wake [[gnu::visibility("hidden")]];

// The background thread's pause between its rounds.
class RoundPause {
 public:
  static constexpr std::uint64_t kLongestNs = 100'000'000;  // `gpumemtrace ctl` may wait this long

  // Called before a round's work: a thread that asks for a round after this call ends the pause
  // that follows the round.
  void round_begins() noexcept { wakes_ = background_wake.count(); }

  // Calls `has_work` after the announcement, when all threads know that they have to wake the
  // background thread; if it returns true, there is no pause.
  template <class HasWork>
  void until_woken(HasWork&& has_work, std::uint64_t longest_ns = kLongestNs) noexcept {
    const auto ns = static_cast<long>(longest_ns);
    background_wake.announce(true);  // mutant: pause_not_announced
    // mutant: asleep_though_needed
    has_work() ? background_wake.announce(false) : background_wake.sleep(wakes_, ns);
  }

 private:
  std::uint32_t wakes_ = 0;
};

}  // namespace gpumemtrace::preload
