// SPDX-License-Identifier: Apache-2.0
#include "analyzer/join/partial_options.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace gpumemtrace::analyzer {

rows::PartialOptions options_row(const Thresholds& thresholds,
                                 const std::optional<std::size_t>& timeline_points,
                                 const std::vector<std::filesystem::path>& owner_files,
                                 const std::string& groups) {
  rows::PartialOptions row;
  for (std::size_t i = 0; i < kThresholds.size(); ++i) {
    row.thresholds[std::string(kThresholds[i].name)] = thresholds[static_cast<Threshold>(i)];
  }
  if (timeline_points) row.timeline_points = *timeline_points;
  row.groups = groups;
  for (const std::filesystem::path& path : owner_files) {
    std::ifstream file(path);
    row.owners.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return row;
}

JoinOptions join_options(const rows::PartialOptions& options) {
  JoinOptions join;
  for (const auto& [name, value] : options.thresholds) {
    const auto info = std::ranges::find(kThresholds, name, &ThresholdInfo::name);
    if (info == kThresholds.end()) throw InputError("There is no threshold " + name + ".");
    join.thresholds.set(static_cast<std::size_t>(info - kThresholds.begin()), value);
  }
  join.timeline_points = options.timeline_points;
  join.groups = options.groups;
  return join;
}

void require_alike(const std::vector<rows::Partial>& partials) {
  for (const rows::Partial& partial : partials) {
    if (partial.tool.version != GPUMEMTRACE_VERSION) {
      throw InputError(partial.source + " was made by gpumemtrace " + partial.tool.version +
                       ", and this is " GPUMEMTRACE_VERSION
                       ": make it again from its traces, or merge with that version.");
    }
    if (partial.options == partials.front().options) continue;
    throw InputError(partial.source + " was made with other options than " +
                     partials.front().source +
                     ": give both the same --threshold, --timeline-points, --groups and "
                     "--owners.");
  }
}

}  // namespace gpumemtrace::analyzer
