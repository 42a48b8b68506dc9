// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/help_formatter.hpp"

#include <sstream>

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kDescriptionColumns = 66;

std::string wrap_line(const std::string& line) {
  std::istringstream words(line);
  std::string wrapped;
  std::size_t columns = 0;
  for (std::string word; words >> word; columns += word.size() + 1) {
    if (wrapped.empty()) {
      columns = 0;
    } else if (columns + word.size() > kDescriptionColumns) {
      wrapped += '\n';
      columns = 0;
    } else {
      wrapped += ' ';
    }
    wrapped += word;
  }
  return wrapped;
}

}  // namespace

std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  return CLI::detail::find_and_replace(CLI::Formatter::make_option_name(option, is_positional),
                                       "{false}", "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::istringstream lines(CLI::Formatter::make_option_desc(option));
  std::string wrapped;
  for (std::string line; std::getline(lines, line);) {
    wrapped += (wrapped.empty() ? "" : "\n") + wrap_line(line);
  }
  return wrapped;
}

}  // namespace gpumemtrace::tools
