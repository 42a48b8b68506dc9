// SPDX-License-Identifier: Apache-2.0
// Measures time by the processor's counter, with the instruction that the recorder uses.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace gpumemtrace::bench {

inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t value;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#endif
}

// Nanoseconds per tick of the counter, measured against the steady clock over 50 ms.
inline double measure_ns_per_tick() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const std::uint64_t begin_ticks = ticks();
  Clock::time_point end = begin;
  while (end - begin < std::chrono::milliseconds(50)) end = Clock::now();
  const std::uint64_t end_ticks = ticks();
  return std::chrono::duration<double, std::nano>(end - begin).count() /
         static_cast<double>(end_ticks - begin_ticks);
}

// Makes the compiler believe that `value` is read and changed here.
template <class Value>
void keep(Value& value) noexcept {
  __asm__ volatile("" : "+m"(value) : : "memory");
}

}  // namespace gpumemtrace::bench
