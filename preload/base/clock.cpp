// SPDX-License-Identifier: Apache-2.0
#include "preload/base/clock.hpp"

#include <string_view>

#include "preload/base/files.hpp"
#include "preload/base/sections.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace gpumemtrace::preload {

[[GPUMEMTRACE_HOT_DATA]] constinit bool counter_is_invariant = false;
// This variable is the first of the hot data in link order: its alignment makes the hot data begin
// at a cache line.
[[GPUMEMTRACE_HOT_DATA]] alignas(64) constinit std::uint64_t ticks_per_us =
    1000;  // CLOCK_MONOTONIC is in ns

#if defined(__x86_64__)
namespace {

bool processor_says_invariant() noexcept {
  unsigned int a = 0;
  unsigned int b = 0;
  unsigned int c = 0;
  unsigned int d = 0;
  // CPUID 0x80000007, EDX bit 8: invariant TSC (Intel SDM volume 3, "Invariant TSC").
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}

// The kernel watches the time stamp counter and takes it off its list of clock sources if the
// counter drifts or differs between processors, even if the processor calls it invariant. If the
// list is hidden, the processor is trusted: the result is true.
bool kernel_trusts_counter() noexcept {
  char list[256];
  const std::size_t size = read_small_file(
      "/sys/devices/system/clocksource/clocksource0/available_clocksource", list, sizeof list);
  std::string_view rest(list, size);
  while (!rest.empty()) {
    std::size_t end = 0;
    while (end < rest.size() && rest[end] != ' ' && rest[end] != '\n') ++end;
    if (std::string_view(rest.data(), end) == "tsc") return true;
    rest.remove_prefix(end < rest.size() ? end + 1 : end);
  }
  return size == 0;
}

}  // namespace

void choose_clock() noexcept {
  counter_is_invariant = processor_says_invariant() && kernel_trusts_counter();
  // The rate of the time stamp counter is not measured: today's processors count at 1.7 to 5 GHz.
  ticks_per_us = counter_is_invariant ? 1700 : 1000;
}
#else
// The Arm generic timer is invariant by its architecture.
void choose_clock() noexcept {
  counter_is_invariant = true;
  std::uint64_t ticks_per_second;
  __asm__("mrs %0, cntfrq_el0" : "=r"(ticks_per_second));
  ticks_per_us = ticks_per_second / 1'000'000;
}
#endif

}  // namespace gpumemtrace::preload
