// SPDX-License-Identifier: Apache-2.0
// The parts of the summary, from top to bottom. Each is a pure function of the report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/rows/report.hpp"
#include "tools/base/named_bytes.hpp"

namespace gpumemtrace::tools {

using Lines = std::vector<std::string>;
using analyzer::rows::Report;

// Of a peak: what is less than one part of so many is not worth a line.
inline constexpr std::uint64_t kLeastShare = 100;

// How much a summary may show of each list; what is large comes first.
struct SummaryDetail {
  std::size_t width = 0;      // of a line
  std::size_t fixes = 0;      // findings with what to do
  bool fix_stacks = false;    // who called the line of each
  std::size_t fix_lines = 0;  // of the text of each
  std::size_t devices = 0;
  std::size_t rows = 0;       // of every other list
  std::string_view inputs{};  // of the next command, as words of a shell; empty: the traces
};

// Whether something is wrong, what ran, and the three largest facts.
[[nodiscard]] Lines answer_section(const Report& report, const SummaryDetail& detail);
// The worst findings with what to do about each.
[[nodiscard]] Lines fix_section(const Report& report, const SummaryDetail& detail);
// For each device: what the card held at the peak as one sum, and who held it: PyTorch's blocks by
// category, layer and line, else the driver's memory by line.
[[nodiscard]] Lines memory_section(const Report& report, const SummaryDetail& detail);
// How the processes of a job differ.
[[nodiscard]] Lines ranks_section(const Report& report, const SummaryDetail& detail);
[[nodiscard]] Lines out_of_memory_section(const Report& report, const SummaryDetail& detail);
[[nodiscard]] Lines leak_section(const Report& report, const SummaryDetail& detail);
[[nodiscard]] Lines transfer_section(const Report& report, const SummaryDetail& detail);
// Whether the trace is complete, what it misses and what was guessed.
[[nodiscard]] Lines trace_section(const Report& report, const SummaryDetail& detail);
// The one command or setting that helps most.
[[nodiscard]] Lines next_section(const Report& report, const SummaryDetail& detail);

void append(Lines& lines, const Lines& more);
// With a comma before it; nothing where it is empty.
void append(std::string& text, const std::string& more);

// process_name(), or nothing in a job of one process.
[[nodiscard]] std::string name_in_job(const Report& report, const std::string& process_id);
// "train.py:88 (evaluate)", else the owner.
[[nodiscard]] std::string name_line(const analyzer::rows::Origin& origin);

// " 34 %".
[[nodiscard]] std::string share_text(std::uint64_t bytes, std::uint64_t total);

// "train.py:88 (evaluate) 12.0 MiB": of a name that does not fit the
// function goes, then its end; the amount stays.
[[nodiscard]] std::string named_amount(const std::string& name, const std::string& amount,
                                       std::size_t width);

// Words in lines of at most `width`, the first behind `head` and the others behind as many spaces.
// What `most_lines` do not hold ends in "...".
[[nodiscard]] Lines wrapped(std::string_view head, const std::string& text, std::size_t width,
                            std::size_t most_lines);
// The same of parts, which are not broken, with `separator` between them.
[[nodiscard]] Lines wrapped_parts(std::string_view head, const std::vector<std::string>& parts,
                                  std::string_view separator, std::size_t width,
                                  std::size_t most_lines);

}  // namespace gpumemtrace::tools
