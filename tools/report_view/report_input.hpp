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
  std::vector<std::filesystem::path> symbols;  // folders of ELF files, and files of `symbolize`
  std::vector<std::filesystem::path> owners;   // files with rules that name the owners of code
  bool use_debuginfod = false;
  bool redact = false;  // replaces private names by meaningless ones
  std::string groups;   // sizes of the groups of ranks, such as "tp=2,dp,pp=4"
  std::optional<std::uint64_t>
      timeline_points;  // number of buckets a timeline; default: analyzer/analyze.hpp
  // The part of the run, and the moment, that the report shows in detail.
  std::optional<std::uint64_t> from_ns;
  std::optional<std::uint64_t> to_ns;
  std::optional<std::uint64_t> at_ns;
  bool blocks_at_peak = false;
};

struct LoadOptions {
  NamingOptions naming;
  std::optional<analyzer::Thresholds> thresholds;  // empty: the user gave no threshold
  // true: shows progress from the start, also if stderr is no terminal
  bool forces_progress_line = false;
  std::optional<analyzer::replay::Question> what_if{};  // if set, the report has what_if[]
  std::optional<std::uint64_t> logged_allocations{};    // if set, the report has allocations[]
  ReportScope scope{};                                  // the part of the job that is shown
  bool all_runs = false;             // includes traces of earlier runs in the folders
  bool tell_left_out = true;         // says on stderr which traces were left out
  bool allows_progress_line = true;  // shows progress; false if several analyses run at once
};

// The analyzer's options for symbols. Throws Failure if a path in `naming` does not exist.
[[nodiscard]] analyzer::SymbolOptions symbol_options(const NamingOptions& naming);

// `inputs` are traces, partial reports and folders of both, which are analyzed as one job, or a
// single saved report. A partial report is used only if its traces are gone. Traces in a folder
// whose command was recorded again later are left out; a row of losses[] names them. Throws Failure
// for anything else, for a report that lacks required keys, and for options that a report or a
// partial report cannot follow: it keeps its own thresholds and names.
[[nodiscard]] analyzer::rows::Report load_report(const std::vector<std::filesystem::path>& inputs,
                                                 const LoadOptions& options);

// The partial report of traces and folders of traces, for `gpumemtrace merge`. Throws Failure also
// for traces in a folder that another run replaced.
[[nodiscard]] analyzer::rows::Partial load_traces_partially(
    const std::vector<std::filesystem::path>& inputs, const LoadOptions& options);
// Loads a report as load_report() does, but no input may be a saved report.
[[nodiscard]] analyzer::rows::Report load_merged(const std::vector<std::filesystem::path>& inputs,
                                                 const LoadOptions& options);

// Loads a report as load_report() does and makes its texts printable (printable_report.hpp).
[[nodiscard]] analyzer::rows::Report load_printable_report(
    const std::vector<std::filesystem::path>& inputs, const LoadOptions& options);

// The report as JSON. A saved report that is shown whole is returned as the text of its file: if an
// older version made it, it lacks keys for which `report` has default values.
[[nodiscard]] std::string report_json(const std::vector<std::filesystem::path>& inputs,
                                      const LoadOptions& options,
                                      const analyzer::rows::Report& report);

// True if all inputs are folders that can be read and hold no trace; also if there is no
// input.
[[nodiscard]] bool is_without_trace(const std::vector<std::filesystem::path>& inputs);

// The missing events, a sentence each: the process, the reason, and the remedy. Empty if none is
// missing; a pause that the user asked for is no loss.
[[nodiscard]] std::vector<std::string> missing_events(const analyzer::rows::Report& report);

// The causes of missing events in a few words, for one process or all: "truncated tail, missing
// chunks".
[[nodiscard]] std::string missing_in_short(const analyzer::rows::Report& report,
                                           const std::optional<std::string>& process = {});

// True if no trace of the report misses an event.
[[nodiscard]] bool is_complete(const analyzer::rows::Report& report);
// A sentence about traces in the input folders that the report left out; empty if there are none.
[[nodiscard]] std::string left_out_traces(const analyzer::rows::Report& report);
// True if recording was paused in one of the traces.
[[nodiscard]] bool was_paused(const analyzer::rows::Report& report);

// The time before which the report has only sums instead of events, so that some rules for findings
// cover only the time after it; empty if the report has every event.
[[nodiscard]] std::optional<std::uint64_t> only_sums_until_ns(const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
