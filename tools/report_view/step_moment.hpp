// SPDX-License-Identifier: Apache-2.0
// What was live when a step of the program held most.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/report_view/report_input.hpp"

namespace gpumemtrace::tools {

// Of one process, at the peak of a step on one device: PyTorch's blocks, else the level below that
// held most.
struct StepMoment {
  analyzer::rows::Step step;
  analyzer::rows::OptionalText device;
  analyzer::Level level = analyzer::Level::kDriver;
  std::uint64_t time_ns = 0;
  std::uint64_t bytes = 0;
  std::vector<analyzer::rows::BlockAt> blocks;
};

// The rows of that step, one a process that has it, the highest peak first. Throws Failure, as of
// an option that makes no sense, where no process has it; the message says which steps there are.
[[nodiscard]] std::vector<analyzer::rows::Step> find_step(const analyzer::rows::Report& report,
                                                          std::uint64_t index);

// Analyzes the traces again for that step, on `device` where one is named. Throws Failure for a
// report, which does not have what a step held, and where nothing was allocated up to its end.
[[nodiscard]] StepMoment step_moment(const std::vector<std::filesystem::path>& traces,
                                     LoadOptions options, const analyzer::rows::Step& step,
                                     const std::string& device);

}  // namespace gpumemtrace::tools
