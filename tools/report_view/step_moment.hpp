// SPDX-License-Identifier: Apache-2.0
// Moments of the run: those that users name, and what was live when a step held most.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/report_view/report_input.hpp"

namespace gpumemtrace::tools {

// One process at the peak of a step on one device: PyTorch's blocks, else the level below that held
// most.
struct StepMoment {
  analyzer::rows::Step step;
  analyzer::rows::OptionalText device;
  analyzer::Level level = analyzer::Level::kDriver;
  std::uint64_t time_ns = 0;
  std::uint64_t bytes = 0;
  std::vector<analyzer::rows::BlockAt> blocks;
};

// The rows of that step, one a process that has it, the highest peak first. Throws Failure, as of
// an option that makes no sense, if no process has it; the message says which steps there are.
[[nodiscard]] std::vector<analyzer::rows::Step> find_step(const analyzer::rows::Report& report,
                                                          std::uint64_t index);

// Analyzes the traces again for that step. Throws Failure for a report, which does not have what a
// step held, and where nothing was allocated up to its end.
[[nodiscard]] StepMoment step_moment(const std::vector<std::filesystem::path>& traces,
                                     LoadOptions options, const analyzer::rows::Step& step);

// A part of the run, or a time in it, as users name it: by times, by a step, or by the peak.
struct NamedTimes {
  std::string from;
  std::string until;
  std::string step;
  std::string at;

  [[nodiscard]] bool has_part() const { return !from.empty() || !until.empty(); }
  // Replaces a step, and "peak" and "step:12" of `at`, by times, for which it analyzes the traces.
  // Throws Failure if they are given twice, where the run has no such step, and where the part
  // ends before it begins.
  void resolve(const std::vector<std::filesystem::path>& traces, const LoadOptions& options);
};

// The error in a value of NamedTimes::at; empty if there is none.
[[nodiscard]] std::string moment_error(const std::string& text);

}  // namespace gpumemtrace::tools
