// SPDX-License-Identifier: Apache-2.0
// Moments of the run: those that users name, and what was live when a step held most.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/report_view/report_input.hpp"

namespace gpumemtrace::tools {

// The memory of one process at the peak of a step on one device: PyTorch's blocks, or if it has
// none, those of the allocator level (such as driver or pool) that held most.
struct StepMoment {
  analyzer::rows::Step step;
  analyzer::rows::OptionalText device;
  analyzer::Level level = analyzer::Level::kDriver;
  std::uint64_t time_ns = 0;
  std::uint64_t bytes = 0;
  std::vector<analyzer::rows::BlockAt> blocks;
};

// The rows of the step with that index, one for each process that has it, the highest peak first.
// Throws Failure (as for a bad option) if no process has the step; the message says which steps
// there are.
[[nodiscard]] std::vector<analyzer::rows::Step> find_step(const analyzer::rows::Report& report,
                                                          std::uint64_t index);

// The row of the step before `step` in the same process; nullopt if the report has none, or does
// not know when it began.
[[nodiscard]] std::optional<analyzer::rows::Step> find_step_before(
    const analyzer::rows::Report& report, const analyzer::rows::Step& step);

// Analyzes the traces again to find what the step held at its peak; nullopt if nothing was
// allocated before the step ended. The start of the step must be known. Throws Failure if `traces`
// is a saved report, which lacks that data.
[[nodiscard]] std::optional<StepMoment> find_step_moment(
    const std::vector<std::filesystem::path>& traces, LoadOptions options,
    const analyzer::rows::Step& step);
// As find_step_moment(), but throws Failure if nothing was allocated before the step ended.
[[nodiscard]] StepMoment step_moment(const std::vector<std::filesystem::path>& traces,
                                     const LoadOptions& options, const analyzer::rows::Step& step);

// A part of the run, or a time in it, as users name it: by times, by a step, or by the peak.
struct NamedTimes {
  std::string from;
  std::string until;
  std::string step;
  std::string at;

  [[nodiscard]] bool has_part() const { return !from.empty() || !until.empty(); }
  // Replaces `step`, and the forms "peak" and "step:12" of `at`, by times, for which the traces are
  // analyzed. Throws Failure if a part is given twice, if the run has no such step, and if the part
  // ends before it begins.
  void resolve(const std::vector<std::filesystem::path>& traces, const LoadOptions& options);
};

// The error in a value of NamedTimes::at; empty if there is none.
[[nodiscard]] std::string moment_error(const std::string& text);

}  // namespace gpumemtrace::tools
