// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace gpumemtrace::bench {

double quantile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  const auto last = static_cast<double>(values.size() - 1);
  const auto position = static_cast<std::ptrdiff_t>(fraction * last + 0.5);
  std::nth_element(values.begin(), values.begin() + position, values.end());
  return values[static_cast<std::size_t>(position)];
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace gpumemtrace::bench
