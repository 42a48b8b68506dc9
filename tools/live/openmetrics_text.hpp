// SPDX-License-Identifier: Apache-2.0
// A job's present state as gauges for Prometheus.
#pragma once

#include <string>

#include "tools/live/live_state.hpp"

namespace gpumemtrace::tools {

// The text format of OpenMetrics, which is also that of Prometheus' exporters: gauges without
// times, a series for each row of the state. What is not known has no series. Labels are the
// process' and the device's names, the category, and the name of a row of losses[].
[[nodiscard]] std::string openmetrics_text(const LiveState& state);

}  // namespace gpumemtrace::tools
