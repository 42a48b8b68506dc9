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

// The largest number of bytes in use within a stretch of time.
struct LiveStretch {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t bytes = 0;
};

// The state of one process on one device; a process without GPU memory has one row without a
// device. Bytes are those of the framework's blocks if it has any, else all that calls of the
// driver and of its memory pools allocated there.
struct LiveRow {
  std::string process;               // the process's id in the report
  std::string trace;                 // the trace's file
  std::optional<std::uint64_t> pid;  // unknown in a PyTorch snapshot
  std::optional<std::string> host;
  std::optional<std::uint64_t> rank;
  bool is_running = false;              // the process still records
  std::optional<std::string> device;    // the device's id in the report
  std::optional<std::string> uuid;      // the device's UUID
  std::optional<std::int64_t> ordinal;  // the device's number in this process
  bool has_framework = false;
  bool is_exact = true;
  std::uint64_t time_ns = 0;          // end of the trace, as time of the job
  std::optional<std::uint64_t> step;  // the step at time_ns
  std::uint64_t live_bytes = 0;
  std::optional<std::uint64_t> reserved_bytes;  // not known without a framework
  std::optional<std::uint64_t> capacity_bytes;  // total bytes of the device
  // The highest sums on the device so far: of the whole job, and of everything on the card.
  std::optional<std::uint64_t> job_peak_bytes;
  std::optional<std::uint64_t> card_peak_bytes;
  BytesByName categories;  // live bytes of the framework by category, which sum to live_bytes
  std::optional<double> growth_bytes_per_step;
  // Time from time_ns until the device is full if the memory keeps growing.
  std::optional<std::uint64_t> full_in_ns;
  std::vector<NamedBytes> lines;  // bytes by line, largest first
  std::vector<NamedBytes> layers;
  // Bytes in use since the start of the recording. Without a framework these are the driver's or
  // its pools' bytes, whichever had more.
  std::vector<LiveStretch> history;
  // Counts by the name of a row of losses[], and the names of those that mean missing events.
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
  std::string name;                // name of the job's first program
  bool is_running = false;         // some process still records
  bool is_snapshot = false;        // made from a PyTorch snapshot: no process records
  std::vector<LiveRow> rows;       // sorted: the fullest device first
  std::vector<std::string> peaks;  // sentences about the peaks of the devices in `rows`
};

// The present state of the processes and devices in `scope`, which may not exist yet.
[[nodiscard]] LiveState live_state_of(const analyzer::JobNow& now, const ReportScope& scope);

}  // namespace gpumemtrace::tools
