// SPDX-License-Identifier: Apache-2.0
// The operands and options that `analyze` and `summary` share.
#pragma once

#include <filesystem>
#include <vector>

#include "tools/cli/command_line.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/threshold_options.hpp"

namespace gpumemtrace::tools {

// Where names come from that the traces do not hold.
void add_symbol_options(CommandLine& line, NamingOptions& naming);
void add_naming_options(CommandLine& line, NamingOptions& naming);

struct InputOptions {
  std::vector<std::filesystem::path> inputs;
  bool require_complete = false;
  bool tell_progress = false;
  NamingOptions naming;
  ThresholdOptions thresholds;

  // The options write into this object, which must stay where it is while the words are parsed.
  void add_options(CommandLine& line);

  [[nodiscard]] Json load() const;

  // What the process returns once the report is out.
  [[nodiscard]] int exit_code(const Json& report) const;
};

}  // namespace gpumemtrace::tools
