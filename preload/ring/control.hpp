// SPDX-License-Identifier: Apache-2.0
// The word that every hook reads: whether there is a recording, and which.
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

// Whole pages of its own: 64-bit Arm kernels may have pages of 64 KiB.
#if defined(__aarch64__)
inline constexpr std::size_t kControlBytes = 65536;
#else
inline constexpr std::size_t kControlBytes = 4096;
#endif
struct alignas(kControlBytes) Control {
  std::atomic<std::uint32_t> session = kNotStarted;
  // The start takes so long that threads no longer wait for it, and the number of calls that were
  // not recorded for that reason.
  std::atomic<bool> start_is_slow = false;
  std::atomic<std::uint32_t> missed = 0;
};
extern constinit Control control [[gnu::visibility("hidden")]];

// True from start to the end of the process, paused or not.
[[nodiscard]] inline bool session_exists() noexcept {
  const std::uint32_t session = control.session.load();
  return session == kPaused || session >= kFirstSessionId;
}

// Makes the calling thread ready to record: starts the session if `may_start` and none was started,
// gives the thread a writer. False: nothing is to be recorded. Slow path; keeps errno.
//
// Rooms above this one implement it. They install it once, before any thread records.
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
// The thread that comes second sees the other one's store.
class BackgroundWake {
 public:
  // Ends the pause, also one that is about to begin. Any thread; a system call. Keeps errno.
  void wake() noexcept;
  // The same if a pause has been announced; otherwise it costs a load.
  void wake_if_asleep() noexcept {
    if (is_announced_.load()) [[unlikely]]
      wake();
  }

  // --- For the background thread.

  // For sleep(): a wake() after this one ends it.
  std::uint32_t count() const noexcept { return count_.load(); }
  void announce(bool pause) noexcept { is_announced_.store(pause); }
  // Sleeps `ns`, or not at all if a wake() came since `count`; the pause is over afterwards.
  void sleep(std::uint32_t count, long ns) noexcept;

 private:
  std::atomic<std::uint32_t> count_ = 0;
  std::atomic<bool> is_announced_ = false;
};
extern constinit BackgroundWake background_wake [[gnu::visibility("hidden")]];

// The background thread's pause between its rounds.
class RoundPause {
 public:
  static constexpr std::uint64_t kLongestNs = 100'000'000;  // `gpumemtrace ctl` waits as long

  // Before a round's work: a thread that asks for a round from now on ends its pause.
  void round_begins() noexcept { wakes_ = background_wake.count(); }

  // `has_work` is called when all threads know that they have to wake this one; if it is true,
  // there is no pause.
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
