// SPDX-License-Identifier: Apache-2.0
// Sleeps by the system call, because libc's functions are cancellation points.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace gpumemtrace::preload {

inline void sleep_microseconds(long microseconds) noexcept {
  const timespec pause{0, microseconds * 1000};
  if (syscall(SYS_nanosleep, &pause, nullptr) == 0 || errno == EINTR) return;
  // A sandbox forbids nanosleep. A futex that nobody wakes waits as long.
  const std::uint32_t word = 0;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause, nullptr, 0);
}

// Checks the condition at most `looks` times with pauses between them: no wait is for ever.
template <class Condition>
void wait_until(Condition&& holds, int looks, long pause_microseconds) noexcept {
  for (int i = 0; i < looks && !holds(); ++i) sleep_microseconds(pause_microseconds);
}

}  // namespace gpumemtrace::preload
