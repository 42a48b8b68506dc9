// SPDX-License-Identifier: Apache-2.0
// The median of numbers in rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gpumemtrace::analyzer::rows {

// The median; if the number of values is even, the lower one of the two in the middle. There must
// be at least one value.
[[nodiscard]] inline std::uint64_t lower_median(std::vector<std::uint64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace gpumemtrace::analyzer::rows
