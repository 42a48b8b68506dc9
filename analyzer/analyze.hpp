// SPDX-License-Identifier: Apache-2.0
// The analyzer's entry point: traces in, report out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "analyzer/base/input_error.hpp"
#include "analyzer/findings/thresholds.hpp"
#include "analyzer/replay/question.hpp"
#include "analyzer/rows/partial.hpp"
#include "analyzer/symbols/symbol_files.hpp"

namespace gpumemtrace::analyzer {

struct Options {
  // Called now and then with the done part, 0 to 1, from the calling thread.
  std::function<void(double fraction)> progress;
  // The limits from which on the rules behind report.findings[] report something.
  Thresholds thresholds;
  SymbolOptions symbols;
  std::vector<std::filesystem::path> owner_files;  // rules of the user, docs/concepts.md
  bool redact = false;  // names without meaning for what is private, docs/security.md
  // The most buckets of a row of timeline[]: 1,024 if nothing is set, and fewer, at least 256, for
  // jobs of more than 16 processes.
  std::optional<std::size_t> timeline_points;
  // timeline[], largest_blocks[] and allocations[] have this part of the run alone, in nanoseconds
  // of the job; an allocation that was live in it belongs to it.
  struct Window {
    std::uint64_t from_ns = 0;
    std::optional<std::uint64_t> to_ns;
  };
  std::optional<Window> window;
  // Also fill report.blocks[]: the memory that was live at each peak, and after all events up to a
  // time of the job.
  bool blocks_at_peak = false;
  std::optional<std::uint64_t> blocks_at_ns;
  // Also fills report.allocations[]: those that are live at the end and, for the rest of each
  // process, so many that ended last.
  std::optional<std::size_t> logged_allocations;
  // The sizes of the groups of ranks, the innermost first: "tp=2,dp,pp=4". Empty: the options of
  // the program's command line, if it has some.
  std::string groups;
  // Also fills report.what_if[].
  std::optional<replay::Question> what_if;
};

// The report of the job that `inputs` (traces and folders of traces) belong to. The same traces
// give the same report.
// Throws InputError if an input is missing, unreadable or no trace, and replay::SettingError for
// settings that the recorded version of PyTorch does not take.
[[nodiscard]] rows::Report analyze(const std::vector<std::filesystem::path>& inputs,
                                   const Options& options);

// The partial report of some of a job's traces, which may all be unreadable. Throws InputError if
// an input is missing. Only thresholds, names, owners, groups and timeline_points count of the
// options: a whole job alone can follow the others.
[[nodiscard]] rows::Partial analyze_partially(const std::vector<std::filesystem::path>& inputs,
                                              const Options& options);
// The options that make another partial report for the same merge, without files of owners.
[[nodiscard]] Options options_of(const rows::Partial& partial);

// The report of all traces that the partial reports are of, as analyze() makes it of the traces
// themselves, in whatever order and parts they come. A trace in several of them counts once. Throws
// InputError, with the file's name, for partial reports of another version or of other options.
[[nodiscard]] rows::Report merge(std::vector<rows::Partial> partials, bool redact);

}  // namespace gpumemtrace::analyzer
