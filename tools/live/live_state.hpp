// SPDX-License-Identifier: Apache-2.0
// What the processes of a job hold at the end of what their traces have.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/follow.hpp"

namespace gpumemtrace::tools {

// One process on one device; a process that has used none has one row. Bytes are those of the
// framework where it has blocks, else all that calls of the driver and its pools gave out there.
struct LiveRow {
  std::string process;  // its id in the report
  std::uint64_t pid = 0;
  std::optional<std::uint64_t> rank;
  std::optional<std::string> device;
  bool has_framework = false;
  bool is_exact = true;
  std::uint64_t time_ns = 0;  // of the job, up to which the trace goes
  std::uint64_t live_bytes = 0;
  std::optional<std::uint64_t> reserved_bytes;      // unknown without a framework
  std::optional<std::uint64_t> capacity_bytes;      // of the device
  std::map<std::string, std::uint64_t> categories;  // of framework blocks; sum to live_bytes
  std::optional<double> growth_bytes_per_step;
  std::optional<std::uint64_t> full_in_ns;  // from time_ns on, at that rate
  // Rows of losses[]: how often each was counted, and those of them by which events are missing.
  std::map<std::string, std::uint64_t> losses;
  std::vector<std::string> missing;
};

// Who holds memory of a row: a category, a line or a layer, largest first.
struct LiveHolder {
  std::string name;
  std::uint64_t bytes = 0;
};

[[nodiscard]] std::vector<LiveHolder> largest_first(
    const std::map<std::string, std::uint64_t>& sums);

struct LiveState {
  std::string name;               // of the job's first program
  bool is_running = false;        // a process still records
  std::vector<LiveRow> rows;      // fullest device first
  std::vector<LiveHolder> lines;  // of the first row
  std::vector<LiveHolder> layers;
};

[[nodiscard]] LiveState live_state_of(const analyzer::JobNow& now);

}  // namespace gpumemtrace::tools
