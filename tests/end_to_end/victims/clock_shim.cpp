// SPDX-License-Identifier: Apache-2.0
// A library to be preloaded that replaces clock_gettime. After its first answers the realtime clock
// goes back by a day, as an administrator or a time server may set it.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {
constexpr long kQuestionsBefore = 3;
constexpr long kDay = 86400;
std::atomic<long> questions = 0;
}  // namespace

extern "C" [[gnu::visibility("default")]] int clock_gettime(clockid_t clock, timespec* now) {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME && ++questions > kQuestionsBefore) now->tv_sec -= kDay;
  return static_cast<int>(result);
}
