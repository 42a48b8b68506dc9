// SPDX-License-Identifier: Apache-2.0
// A job's present state as gauges for Prometheus.
#pragma once

#include <string>

#include "tools/live/live_state.hpp"

namespace gpumemtrace::tools {

// The state in the OpenMetrics text format, which Prometheus' exporters use, too: gauges without
// timestamps, a series for each row of the state. Unknown values have no series. Labels are names
// of the process and the device, the category, and the name of a row of losses[].
[[nodiscard]] std::string openmetrics_text(const LiveState& state);

}  // namespace gpumemtrace::tools
