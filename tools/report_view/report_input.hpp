// SPDX-License-Identifier: Apache-2.0
// Turns the inputs that users name on the command line into one report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/findings/thresholds.hpp"
#include "analyzer/replay/question.hpp"
#include "analyzer/rows/partial.hpp"
#include "analyzer/symbols/symbol_files.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/report_scope.hpp"

namespace gpumemtrace::tools {

// Options for making a report of traces; a saved report is read as it is.
struct NamingOptions {
  std::vector<std::filesystem::path> symbols;  // folders of files, and side-cars
  std::vector<std::filesystem::path> owners;   // files of rules
  bool use_debuginfod = false;
  bool redact = false;  // names without meaning for what is private
  std::string groups;   // sizes of the groups of ranks: analyzer/analyze.hpp
  std::optional<std::uint64_t>
      timeline_points;  // buckets a timeline; default: analyzer/analyze.hpp
  // The part of the run and the time to show in detail.
  std::optional<std::uint64_t> from_ns;
  std::optional<std::uint64_t> to_ns;
  std::optional<std::uint64_t> at_ns;
  bool blocks_at_peak = false;
};

struct LoadOptions {
  NamingOptions naming;
  std::optional<analyzer::Thresholds> thresholds;  // empty: none was named
  bool tell_progress = false;  // of a long analysis, also if stderr is no terminal
  std::optional<analyzer::replay::Question> what_if{};  // also fills what_if[]
  std::optional<std::uint64_t> logged_allocations{};    // also fills allocations[]
  ReportScope scope{};                                  // the part of the job that is shown
  bool all_runs = false;       // takes in what earlier runs left in the folders
  bool tell_left_out = true;   // on stderr, if it does not
  bool shows_progress = true;  // false: several analyses run at once
};

// Throws Failure for a path that is not there.
[[nodiscard]] analyzer::SymbolOptions symbol_options(const NamingOptions& naming);

// `inputs` are traces, partial reports and folders of both, which are analyzed as one job, or a
// single report, which is read. A partial report counts if its traces are gone. Traces in a folder
// whose command was recorded again later are left out, and are a row of losses[]. Throws Failure
// for anything else, also for a report that lacks required keys, and for options that a report or a
// partial report cannot follow: its thresholds and names are its own.
[[nodiscard]] analyzer::rows::Report load_report(const std::vector<std::filesystem::path>& inputs,
                                                 const LoadOptions& options);

// The partial report of traces and folders of traces, for `gpumemtrace merge`. Throws Failure also
// for traces in a folder that another run replaced.
[[nodiscard]] analyzer::rows::Partial load_traces_partially(
    const std::vector<std::filesystem::path>& inputs, const LoadOptions& options);
// As load_report(), without a report among the inputs.
[[nodiscard]] analyzer::rows::Report load_merged(const std::vector<std::filesystem::path>& inputs,
                                                 const LoadOptions& options);

// The same with texts that may be shown (printable_report.hpp).
[[nodiscard]] analyzer::rows::Report load_printable_report(
    const std::vector<std::filesystem::path>& inputs, const LoadOptions& options);

// The report as JSON. A saved report that is shown whole is the text that it was saved as: rows
// have a value for each key, also for those that the older version which made it did not know.
[[nodiscard]] std::string report_json(const std::vector<std::filesystem::path>& inputs,
                                      const LoadOptions& options,
                                      const analyzer::rows::Report& report);

// True if all inputs are folders that can be read and hold no trace; also if there is no
// input.
[[nodiscard]] bool is_without_trace(const std::vector<std::filesystem::path>& inputs);

// The missing events, a sentence each: the process, the reason, and the remedy. Empty if none is
// missing; a pause that the user asked for is no loss.
[[nodiscard]] std::vector<std::string> missing_events(const analyzer::rows::Report& report);

// The same in a few words, for one process or all: "truncated tail, missing chunks".
[[nodiscard]] std::string missing_in_short(const analyzer::rows::Report& report,
                                           const std::optional<std::string>& process = {});

// True if no trace of the report misses an event.
[[nodiscard]] bool is_complete(const analyzer::rows::Report& report);
// A sentence about traces in its folders that the report left out; empty if there are none.
[[nodiscard]] std::string left_out_traces(const analyzer::rows::Report& report);
// True if recording was paused in one of the traces.
[[nodiscard]] bool was_paused(const analyzer::rows::Report& report);

// The time up to which the report has sums alone, so that some rules cover only the rest; empty if
// it has every event.
[[nodiscard]] std::optional<std::uint64_t> only_sums_until_ns(const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
