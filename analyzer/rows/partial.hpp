// SPDX-License-Identifier: Apache-2.0
// A partial report: the sections for some of a job's processes, before lists are shortened, rows
// get their final ids and processes are compared.
//
// - Ids of processes and devices are those of this partial report alone.
// - Times are those of each machine's monotonic clock.
// - A list whose length depends on the size of the job is complete, or there once for each length.
#pragma once

#include <map>

#include "analyzer/rows/card_history.hpp"
#include "analyzer/rows/observations.hpp"
#include "analyzer/rows/report.hpp"

namespace gpumemtrace::analyzer::rows {

struct PartialProcess {
  ProcessId process;
  std::string trace;  // the id in the trace file's header
  std::string path;   // path of the trace file
  // Both clocks of the machine at the first tick
  std::uint64_t monotonic_ns = 0;
  std::uint64_t realtime_ns = 0;
  OptionalNumber wrapped;  // number of driver functions that the recorder wraps
  NamedNumbers losses;

  GPUMEMTRACE_FIELDS(process, trace, path, monotonic_ns, realtime_ns, wrapped, losses)
};

// timeline[] with at most `points` buckets in each row.
struct TimelinesOfPoints {
  std::uint64_t points = 0;
  std::vector<Timeline> timeline;

  GPUMEMTRACE_FIELDS(points, timeline)
};

// The largest allocations of one process, device and level: largest_blocks[] has some of them.
struct LargestOfAccount {
  ProcessId process;
  std::vector<LargestBlock> blocks;
  std::uint64_t most_lasting = 0;      // number of leading `blocks`: most bytes times lifetime
  std::vector<std::uint64_t> at_peak;  // indexes into `blocks`: live at the peak, largest first

  GPUMEMTRACE_FIELDS(process, blocks, most_lasting, at_peak)
};

// segments[] of one device: one that ran out of memory, else the one with most reserved bytes.
struct TellingSegments {
  ProcessId process;
  bool ran_out_of_memory = false;
  std::uint64_t reserved_peak_bytes = 0;
  std::vector<Segment> segments;

  GPUMEMTRACE_FIELDS(process, ran_out_of_memory, reserved_peak_bytes, segments)
};

// A module whose file with symbols was asked for and not found.
struct UnnamedModule {
  std::string path;
  std::string build_id;               // in hexadecimal
  bool is_replaced_by_other = false;  // its file is of another build

  friend auto operator<=>(const UnnamedModule&, const UnnamedModule&) = default;

  GPUMEMTRACE_FIELDS(path, build_id, is_replaced_by_other)
};

// The options of the analyzer that change the rows of a partial report.
struct PartialOptions {
  std::map<std::string, double> thresholds;
  OptionalNumber timeline_points;
  std::vector<std::string> owners;  // the text of each file of --owners
  std::string groups;               // the value of --groups

  friend bool operator==(const PartialOptions&, const PartialOptions&) = default;

  GPUMEMTRACE_FIELDS(thresholds, timeline_points, owners, groups)
};

struct Partial {
  static constexpr std::string_view kFormat = "gpumemtrace-partial";
  static constexpr std::uint64_t kVersion = 1;

  std::string source;  // path of the partial report, for messages; not written to the file

  std::string format{kFormat};
  std::uint64_t version = kVersion;
  Tool tool;
  PartialOptions options;
  std::vector<PartialProcess> processes;  // in the order of the report's processes
  // Lacks the rows that compare processes or devices, and the sections that are members below.
  Report report;
  std::vector<TimelinesOfPoints> timelines;
  std::vector<LargestOfAccount> largest_blocks;
  std::optional<TellingSegments> segments;
  std::vector<CardHistory> card_histories;
  Observations observations;
  std::vector<ExportedBySite> exported_memory;
  std::vector<OpenedBySite> opened_memory;
  std::vector<UnnamedModule> unnamed_modules;
  std::vector<UnreadableTrace> unreadable_traces;  // traces that cannot be read, by path

  GPUMEMTRACE_FIELDS(format, version, tool, options, processes, report, timelines, largest_blocks,
                     segments, card_histories, observations, exported_memory, opened_memory,
                     unnamed_modules, unreadable_traces)
};

}  // namespace gpumemtrace::analyzer::rows
