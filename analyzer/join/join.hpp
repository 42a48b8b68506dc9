// SPDX-License-Identifier: Apache-2.0
// Joins partial reports to the report of the whole job.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/findings/thresholds.hpp"
#include "analyzer/rows/partial.hpp"

namespace gpumemtrace::analyzer {

struct JoinOptions {
  Thresholds thresholds;
  bool redact = false;
  std::optional<std::size_t> timeline_points;
  std::string groups{};  // sizes of the groups of ranks, as in Options::groups
  // One window for all processes, in nanoseconds of the job.
  std::optional<rows::Window> window{};
  std::optional<std::uint64_t> blocks_at_ns{};
  bool repeated_traces_count_once = false;
};

// Joins partial reports. The result is the same for any order of them, and however the processes of
// the job are spread over them.
[[nodiscard]] rows::Report join(std::vector<rows::Partial> partials, const JoinOptions& options);

// The numbers of points that a row of timeline[] can have. The fewer traces a job has, the more
// points.
inline constexpr std::array<std::size_t, 3> kTimelinePoints = {1024, 512, 256};
[[nodiscard]] std::size_t default_timeline_points(std::size_t traces);

// The most rows of largest_blocks[] of one account (memory of one level, process and device) in a
// job with `accounts` accounts, for each order of the list: by bytes times lifetime, and at the
// peak.
[[nodiscard]] std::size_t most_largest_blocks(std::size_t accounts);

}  // namespace gpumemtrace::analyzer
