// SPDX-License-Identifier: Apache-2.0
#include "preload/python/python_rounds.hpp"

#include <time.h>

#include "preload/base/clock.hpp"
#include "preload/python/python_collections.hpp"
#include "preload/python/python_frames.hpp"

namespace gpumemtrace::preload::python {
namespace {

// Not a short one: after it, threads look at all code objects of their stacks.
constexpr std::uint64_t kRoundNs = 5'000'000;

}  // namespace

void Rounds::begin_if_due(bool are_recorded) noexcept {
  const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  if (now_ns - last_ns_ < kRoundNs) return;
  last_ns_ = now_ns;
  next_round();
  if (are_recorded) watch_collector();
}

}  // namespace gpumemtrace::preload::python
