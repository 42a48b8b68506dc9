// SPDX-License-Identifier: Apache-2.0
// The parts of the summary, from top to bottom. Each is a pure function of the report.
#pragma once

#include <string>
#include <vector>

#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {

using Lines = std::vector<std::string>;

// How much a summary may show of each list; the rest is counted.
struct SummaryDetail {
  std::size_t fixes = 0;
  bool fix_stacks = false;    // who called the call site of each
  std::size_t fix_lines = 0;  // of the text of each
  std::size_t devices = 0;
  std::size_t peaks_per_device = 0;
  std::size_t holders_per_peak = 0;
  std::size_t rows_per_list = 0;
};

// In one line whether something is wrong, and what is worst.
[[nodiscard]] Lines verdict_section(const Json& report, const SummaryDetail& detail);
// The worst findings with what to do about each.
[[nodiscard]] Lines fix_section(const Json& report, const SummaryDetail& detail);
// What was traced, and whether the trace is complete.
[[nodiscard]] Lines job_section(const Json& report, const SummaryDetail& detail);
// For each device, then for the host: peaks, their holders and what the driver's number consists
// of.
[[nodiscard]] Lines memory_section(const Json& report, const SummaryDetail& detail);
// Whether the line of memory_section() names one holder of a peak.
[[nodiscard]] bool is_holder_line(const std::string& line);
[[nodiscard]] Lines leak_section(const Json& report, const SummaryDetail& detail);
[[nodiscard]] Lines fragmentation_section(const Json& report, const SummaryDetail& detail);
[[nodiscard]] Lines transfer_section(const Json& report, const SummaryDetail& detail);
[[nodiscard]] Lines out_of_memory_section(const Json& report, const SummaryDetail& detail);
// What the trace misses and what was guessed.
[[nodiscard]] Lines loss_section(const Json& report, const SummaryDetail& detail);
// The one command or setting that helps most.
[[nodiscard]] Lines next_section(const Json& report, const SummaryDetail& detail);

// "process 41237", with its rank if it has one, for the id of a process.
[[nodiscard]] std::string name_process(const Json& report, const std::string& process_id);

}  // namespace gpumemtrace::tools
