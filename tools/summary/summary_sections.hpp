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

// A part of a peak below one of so many is not worth a line.
inline constexpr std::uint64_t kLeastShare = 100;

// Lines that are shown or left out together, so that no sentence is cut.
struct Block {
  Lines lines;
  // If there is no room, the highest goes first.
  int rank = 0;
  std::string_view what{};  // "finding": how many of these were left out is said
};
using Blocks = std::vector<Block>;
inline constexpr int kGoesFirst = 1000;

// From the first shown to the first left out. Rows of a list, and devices, count up from
// theirs.
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

inline constexpr int kNextFinding = 10;  // from one finding, or hint, to the next
inline constexpr int kNextDevice = 26;
inline constexpr int kNextRow = 4;
}  // namespace rank

struct SummaryDetail {
  std::size_t width = 0;      // of a line
  bool is_full = false;       // nothing is left out
  std::string_view inputs{};  // for the next command, as words of a shell; empty: the traces
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
// Memory that was open in one process when its own freed it, or had ended.
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
// The text with a comma before it; empty if it is empty.
void append(std::string& text, const std::string& more);

// process_name(), or an empty text in a job of one process. An empty id is of no process.
[[nodiscard]] std::string name_in_job(const Report& report, const std::string& process_id);

// " 34 %".
[[nodiscard]] std::string share_text(std::uint64_t bytes, std::uint64_t total);

// "train.py:88 (evaluate) 12.0 MiB"; without the function if only that has room.
[[nodiscard]] std::string named_amount(const std::string& name, const std::string& amount,
                                       std::size_t width);

}  // namespace gpumemtrace::tools
