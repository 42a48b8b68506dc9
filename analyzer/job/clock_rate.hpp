// SPDX-License-Identifier: Apache-2.0
// Tells whether a clock can convert a time after its last calibration to a tick.
#pragma once

#include <cstdint>

#include "analyzer/base/clock.hpp"

namespace gpumemtrace::analyzer {

// False while all calibrations lie so close together that their jitter decides the rate, as in a
// process's first second.
[[nodiscard]] inline bool knows_rate(const Clock& clock) {
  constexpr std::uint64_t kLeastNs = 10'000'000;
  return !clock.points().empty() &&
         clock.points().back().monotonic_ns - clock.points().front().monotonic_ns >= kLeastNs;
}

}  // namespace gpumemtrace::analyzer
