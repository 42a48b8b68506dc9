// SPDX-License-Identifier: Apache-2.0
// How `--help` looks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace gpumemtrace::tools {

// CLI11's layout with descriptions that are wrapped beside their options.
class HelpFormatter : public CLI::Formatter {
 public:
  // Without the mark `{false}` that CLI11 puts behind a flag which means "no".
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  // A line end in a description stays.
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace gpumemtrace::tools
