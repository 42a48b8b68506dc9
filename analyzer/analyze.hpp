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
  // Called now and then from the calling thread, with the fraction of the work that is done, 0 to
  // 1.
  std::function<void(double fraction)> progress;
  // The limits from which on the rules behind report.findings[] report something.
  Thresholds thresholds;
  SymbolOptions symbols;
  // files of the user's rules for owners, docs/concepts.md
  std::vector<std::filesystem::path> owner_files;
  bool redact = false;  // private names become meaningless ones, docs/security.md
  // The most buckets of a row of timeline[]. If this is not set: 1,024, and for jobs of more than
  // 16 processes fewer, but at least 256.
  std::optional<std::size_t> timeline_points;
  // The part of the run, in nanoseconds of the job, to which timeline[], largest_blocks[] and
  // allocations[] are limited; an allocation that was live in the part belongs to it.
  struct Window {
    std::uint64_t from_ns = 0;
    std::optional<std::uint64_t> to_ns;
  };
  std::optional<Window> window;
  // Fill report.blocks[] too: with the memory that was live at each peak, and with what was live
  // after all events up to a time of the job.
  bool blocks_at_peak = false;
  std::optional<std::uint64_t> blocks_at_ns;
  // Fill report.allocations[] too: for each process, with all allocations that are live at the end
  // and at most this number of those that ended last.
  std::optional<std::size_t> logged_allocations;
  // The sizes of the groups of ranks, the innermost first: "tp=2,dp,pp=4". If empty, the sizes are
  // taken from the options on the program's command line, if it names them.
  std::string groups;
  // Fill report.what_if[] too.
  std::optional<replay::Question> what_if;
};

// The report of the job that `inputs` (traces and folders of traces) belong to. The same traces
// give the same report.
// Throws InputError if an input is missing, unreadable or no trace, and replay::SettingError for
// settings that the recorded version of PyTorch does not take.
[[nodiscard]] rows::Report analyze(const std::vector<std::filesystem::path>& inputs,
                                   const Options& options);

// The partial report of some of a job's traces, which may all be unreadable. Throws InputError if
// an input is missing. Only the options thresholds, symbols, owner_files, groups and
// timeline_points are followed; the others need the whole job.
[[nodiscard]] rows::Partial analyze_partially(const std::vector<std::filesystem::path>& inputs,
                                              const Options& options);
// The options that `partial` was made with, except owner_files. A partial report made with the same
// options and owner files can be merged with `partial`.
[[nodiscard]] Options options_of(const rows::Partial& partial);

// Merges partial reports to the report that analyze() makes of their traces, in whatever order and
// parts these come. A trace in several partial reports counts once. Throws InputError, with the
// file's name, for partial reports of another version or of other options.
[[nodiscard]] rows::Report merge(std::vector<rows::Partial> partials, bool redact);

}  // namespace gpumemtrace::analyzer
