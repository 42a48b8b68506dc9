// SPDX-License-Identifier: Apache-2.0
// The memory of a job's processes at the end of their traces.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/follow.hpp"
#include "tools/base/sizes.hpp"
#include "tools/report_view/report_scope.hpp"

namespace gpumemtrace::tools {

// The most that was in use in a stretch of the run.
struct LiveStretch {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t bytes = 0;
};

// One process on one device; a process that has used none has one row. Bytes are those of the
// framework if it has blocks, else all that calls of the driver and its pools gave out there.
struct LiveRow {
  std::string process;               // its id in the report
  std::string trace;                 // its file
  std::optional<std::uint64_t> pid;  // not known of a snapshot
  std::optional<std::string> host;
  std::optional<std::uint64_t> rank;
  bool is_running = false;              // it still records
  std::optional<std::string> device;    // its id in the report
  std::optional<std::string> uuid;      // of the device
  std::optional<std::int64_t> ordinal;  // of the device, as the process numbers it
  bool has_framework = false;
  bool is_exact = true;
  std::uint64_t time_ns = 0;          // of the job, up to which the trace goes
  std::optional<std::uint64_t> step;  // in which it was then
  std::uint64_t live_bytes = 0;
  std::optional<std::uint64_t> reserved_bytes;  // unknown without a framework
  std::optional<std::uint64_t> capacity_bytes;  // of the device
  // The highest sums on the device so far: of the whole job, and of everything on the card.
  std::optional<std::uint64_t> job_peak_bytes;
  std::optional<std::uint64_t> card_peak_bytes;
  BytesByName categories;  // of framework blocks; sum to live_bytes
  std::optional<double> growth_bytes_per_step;
  std::optional<std::uint64_t> full_in_ns;  // from time_ns on, at that rate
  std::vector<NamedBytes> lines;            // largest first
  std::vector<NamedBytes> layers;
  // From the start of the recording; without a framework of the driver's calls or of its pools,
  // which had more.
  std::vector<LiveStretch> history;
  // Rows of losses[]: how often each was counted, and those of them by which events are missing.
  std::map<std::string, std::uint64_t> losses;
  std::vector<std::string> missing;

  // The part that --json prints.
  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, time_ns, pid, rank, device, step, reserved_bytes, live_bytes);
    v("categories", self.has_framework ? std::optional(self.categories) : std::nullopt);
    GPUMEMTRACE_KEYS(v, job_peak_bytes, card_peak_bytes, growth_bytes_per_step, full_in_ns, losses);
    v("exact", self.is_exact);
  }
};

struct LiveState {
  std::string name;                // of the job's first program
  bool is_running = false;         // a process still records
  bool is_snapshot = false;        // of a program that went on: nothing records
  std::vector<LiveRow> rows;       // fullest device first
  std::vector<std::string> peaks;  // of the devices of the rows, in sentences
};

// The state of the processes and devices in `scope`, which need not be there yet.
[[nodiscard]] LiveState live_state_of(const analyzer::JobNow& now, const ReportScope& scope);

}  // namespace gpumemtrace::tools
