// SPDX-License-Identifier: Apache-2.0
// The clock of the records: the time stamp counter if it is invariant (one rate on all cores,
// also in sleep) and the kernel trusts it, else CLOCK_MONOTONIC in nanoseconds. Clock records tie
// it to the system's clocks.
#pragma once

#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace gpumemtrace::preload {

inline std::uint64_t clock_ns(clockid_t clock) noexcept {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// True if ticks() reads the processor's counter, false if it reads CLOCK_MONOTONIC. Set once before
// the first record.
extern constinit bool counter_is_invariant [[gnu::visibility("hidden")]];
// An estimate of the ticks in a microsecond, never above the real rate; for times that need not be
// exact.
extern constinit std::uint64_t ticks_per_us [[gnu::visibility("hidden")]];
void choose_clock() noexcept;

inline std::uint64_t ticks() noexcept {
  if (!counter_is_invariant) [[unlikely]]
    return clock_ns(CLOCK_MONOTONIC);
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t value;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#endif
}

}  // namespace gpumemtrace::preload
