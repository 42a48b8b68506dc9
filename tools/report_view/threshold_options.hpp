// SPDX-License-Identifier: Apache-2.0
// `--threshold NAME=VALUE`: the size or number from which on the analyzer's rules report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/findings/thresholds.hpp"
#include "tools/cli/command_line.hpp"

namespace gpumemtrace::tools {

struct ThresholdOptions {
  std::vector<std::string> texts;

  // The option writes into this object, which must stay where it is while the command is parsed.
  void add_options(CommandLine& line);
  // The given thresholds; empty if there are none. Throws Failure for an unknown name, or a value
  // that does not fit it.
  [[nodiscard]] std::optional<analyzer::Thresholds> values() const;
};

}  // namespace gpumemtrace::tools
