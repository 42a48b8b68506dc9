// SPDX-License-Identifier: Apache-2.0
// `--threshold NAME=VALUE`: from where on the analyzer's rules speak up.
#pragma once

#include <string>
#include <vector>

#include "analyzer/findings/thresholds.hpp"
#include "tools/cli/cli_forward.hpp"

namespace gpumemtrace::tools {

struct ThresholdOptions {
  std::vector<std::string> texts;

  // The option writes into this object, which must stay where it is while CLI11 parses.
  void add_options(CLI::App& app);
  // Throws Failure for an unknown name or a value that does not fit it.
  [[nodiscard]] analyzer::Thresholds values() const;
};

}  // namespace gpumemtrace::tools
