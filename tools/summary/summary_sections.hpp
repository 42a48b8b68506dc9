// SPDX-License-Identifier: Apache-2.0
// The parts of the summary, from top to bottom. Each is a pure function of the report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/rows/report.hpp"
#include "analyzer/text/names.hpp"
#include "tools/base/lines.hpp"
#include "tools/base/sizes.hpp"

namespace gpumemtrace::tools {

using analyzer::name_line;
using analyzer::rows::Report;

// A part of a peak gets no line of its own if it is smaller than one in this many of the peak's
// bytes.
inline constexpr std::uint64_t kLeastShare = 100;

// Lines that are shown or left out together, so that no sentence is cut.
struct Block {
  Lines lines;
  // If the lines do not fit, blocks with the highest rank are left out first.
  int rank = 0;
  // Such as "finding": the kind, whose left-out blocks are counted in the text.
  std::string_view what{};
};
using Blocks = std::vector<Block>;
inline constexpr int kGoesFirst = 1000;

// Ranks of blocks: the higher the rank, the earlier a block is left out. The rank rises from row to
// row of a list, and from device to device.
namespace rank {
inline constexpr int kAnswer = 0;
inline constexpr int kMissingEvents = 2;
inline constexpr int kFact = 3;
inline constexpr int kFinding = 5;
inline constexpr int kFix = 6;
inline constexpr int kNext = 7;
inline constexpr int kRanks = 7;
inline constexpr int kCard = 8;
inline constexpr int kOfPeak = 9;
inline constexpr int kFailure = 11;
inline constexpr int kLeak = 12;
inline constexpr int kTrace = 20;
inline constexpr int kHint = 22;
inline constexpr int kByLine = 30;
inline constexpr int kNoLeak = 32;
inline constexpr int kCopies = 33;
inline constexpr int kByName = 40;
inline constexpr int kLoss = 42;
inline constexpr int kCallers = 44;
inline constexpr int kCopyKind = 48;
inline constexpr int kNote = 60;

inline constexpr int kNextFinding = 10;  // added to the rank for each further finding or hint
inline constexpr int kNextDevice = 26;
inline constexpr int kNextRow = 4;
}  // namespace rank

struct SummaryDetail {
  std::size_t width = 0;  // columns of a line of text
  bool is_full = false;   // true: no line is left out
  // The inputs for the suggested next command, as shell words; empty: the traces.
  std::string_view inputs{};
};

// The answer to "is something wrong?", the program, and the three largest facts.
[[nodiscard]] Blocks answer_section(const Report& report, const SummaryDetail& detail);
// The worst findings, each with its remedy.
[[nodiscard]] Blocks fix_section(const Report& report, const SummaryDetail& detail);
// For each device: the card's memory at the peak as one sum, and its holders: PyTorch's blocks by
// category, layer and line, else the driver's memory by line.
[[nodiscard]] Blocks memory_section(const Report& report, const SummaryDetail& detail);
// The differences between processes of a job.
[[nodiscard]] Blocks ranks_section(const Report& report, const SummaryDetail& detail);
[[nodiscard]] Blocks out_of_memory_section(const Report& report, const SummaryDetail& detail);
[[nodiscard]] Blocks leak_section(const Report& report, const SummaryDetail& detail);
// Memory that a process still had open when the exporting process freed it or had ended.
[[nodiscard]] Blocks shared_memory_section(const Report& report, const SummaryDetail& detail);
[[nodiscard]] Blocks transfer_section(const Report& report, const SummaryDetail& detail);
// The trace's losses and guesses, or that it is complete.
[[nodiscard]] Blocks trace_section(const Report& report, const SummaryDetail& detail);
// Memory that a framework took in advance, and why lines of the program have no names.
[[nodiscard]] Blocks recording_section(const Report& report, const SummaryDetail& detail);
// The one command or setting that helps most.
[[nodiscard]] Blocks next_section(const Report& report, const SummaryDetail& detail);

void append(Lines& lines, const Lines& more);
void append(Blocks& blocks, const Blocks& more);
// Appends `more` after a comma; does nothing if `more` is empty.
void append(std::string& text, const std::string& more);

// The result of process_name(); empty if the job has one process, or if the id is empty.
[[nodiscard]] std::string name_in_job(const Report& report, const std::string& process_id);

// A share as a percentage of fixed width: " 34 %".
[[nodiscard]] std::string share_text(std::uint64_t bytes, std::uint64_t total);

// A name with an amount: "train.py:88 (evaluate) 12.0 MiB"; without the function's name if only
// that makes the text fit `width`.
[[nodiscard]] std::string named_amount(const std::string& name, const std::string& amount,
                                       std::size_t width);

}  // namespace gpumemtrace::tools
