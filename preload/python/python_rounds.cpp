// SPDX-License-Identifier: Apache-2.0
#include "preload/python/python_rounds.hpp"

#include <time.h>

#include "preload/base/clock.hpp"
#include "preload/python/python_collections.hpp"

namespace gpumemtrace::preload::python {
namespace {

// Not a short one: after it, threads look at all code objects of their stacks.
constexpr std::uint64_t kRoundNs = 5'000'000;

constinit std::atomic<bool> is_used = false;

void wake_nobody() noexcept {}
constinit WakeBackground* installed_wake = wake_nobody;

}  // namespace

constinit std::atomic<std::uint32_t> present_round = 1;

void install_wake_background(WakeBackground* wake) noexcept { installed_wake = wake; }

void use_round() noexcept {
  is_used.store(true);
  installed_wake();
}

void Rounds::begin_if_due(bool are_recorded) noexcept {
  const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  if (now_ns - last_ns_ < kRoundNs) return;
  last_ns_ = now_ns;
  was_used_ = is_used.exchange(false);
  // Relaxed: threads may take up a new round late, and nothing else is known by it.
  if (was_used_) present_round.fetch_add(1, std::memory_order_relaxed);
  if (are_recorded) watch_collector();
}

bool Rounds::is_in_use() const noexcept { return was_used_ || is_used.load(); }

}  // namespace gpumemtrace::preload::python
