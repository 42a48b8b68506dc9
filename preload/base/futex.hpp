// SPDX-License-Identifier: Apache-2.0
// Threads that wait until another one has changed a word. By system calls of our own: libc aborts
// if a sandbox forbids futexes, and its functions that sleep are places to cancel a thread at.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace gpumemtrace::preload {

inline constexpr long kLongestWaitNs = 999'999'999;

// Sleeps while the word is `seen`, at most `timeout_ns`; may come back before. Where futexes are
// forbidden: sleeps for `poll_ns`.
inline void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                            long timeout_ns, long poll_ns) noexcept {
  const timespec timeout{0, timeout_ns};
  if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0) == 0) return;
  if (errno != EPERM && errno != ENOSYS) return;
  const timespec poll{0, poll_ns};
  syscall(SYS_nanosleep, &poll, nullptr);
}

// Ends such waits.
inline void wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
}

}  // namespace gpumemtrace::preload
