// SPDX-License-Identifier: Apache-2.0
// Waits of threads, by system calls of our own: libc aborts if a sandbox forbids futexes, and its
// functions that sleep are cancellation points.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace gpumemtrace::preload {

inline void sleep_microseconds(long microseconds) noexcept {
  const timespec pause{0, microseconds * 1000};
  if (syscall(SYS_nanosleep, &pause, nullptr) == 0 || errno == EINTR) return;
  // A sandbox forbids nanosleep: waits for as long on a futex that nobody wakes.
  const std::uint32_t word = 0;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause, nullptr, 0);
}

// Waits until the condition holds: checks it at most `looks` times with pauses between the checks,
// so that no wait is for ever.
template <class Condition>
void wait_until(Condition&& holds, int looks, long pause_microseconds) noexcept {
  for (int i = 0; i < looks && !holds(); ++i) sleep_microseconds(pause_microseconds);
}

inline constexpr long kLongestWaitNs = 999'999'999;

// Sleeps while the word has the value `seen`, at most `timeout_ns`; may return earlier. If futexes
// are forbidden, sleeps for `poll_ns` instead.
inline void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                            long timeout_ns, long poll_ns) noexcept {
  const timespec timeout{0, timeout_ns};
  if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0) == 0) return;
  if (errno != EPERM && errno != ENOSYS) return;
  const timespec poll{0, poll_ns};
  syscall(SYS_nanosleep, &poll, nullptr);
}

// Ends the waits of all threads in wait_for_change() for this word.
inline void wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
}

}  // namespace gpumemtrace::preload
