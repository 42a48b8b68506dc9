// SPDX-License-Identifier: Apache-2.0
// Order statistics of measured values.
#pragma once

#include <vector>

namespace gpumemtrace::bench {

// The value below which the part `fraction` (0 to 1) of the values lies; 0 if there are no values.
[[nodiscard]] double quantile(std::vector<double> values, double fraction);
[[nodiscard]] double median(std::vector<double> values);

}  // namespace gpumemtrace::bench
