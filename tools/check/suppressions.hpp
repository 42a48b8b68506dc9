// SPDX-License-Identifier: Apache-2.0
// Findings that are to be left out, in the syntax of LeakSanitizer's suppressions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// True if `text` contains the pattern. In it `*` stands for any letters, `^` at its start and
// `$` at its end for the ends of the text.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

struct Suppression {
  std::string type;  // a rule or a family of rules: leak, transfer, growth
  std::string pattern;
  std::string origin;  // "FILE:LINE", "in PROGRAM:LINE" (a program's own text) or "built in"
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;

  [[nodiscard]] bool is_built_in() const { return origin == "built in"; }
};

// The suppressions that apply to a job, with counts of the findings that they hide.
// - If several suppressions fit a finding, the first one counts it.
// - A pattern is compared with the function, file, file:line, module and owner of the finding, and
//   with those of every frame of its stack.
class Suppressions {
 public:
  // Contains the built-in suppressions.
  Suppressions();

  // Throws Failure for a file that cannot be read or a line that is no suppression.
  void add_file(const std::filesystem::path& path);
  void add_text(std::string_view text, const std::string& origin);
  // Adds suppressions that the programs of the report asked for. The same line of several processes
  // counts once.
  void add_embedded(const analyzer::rows::Report& report);

  // The suppression that hides the finding, counted as used; nullptr if there is none.
  const Suppression* use(const analyzer::rows::Finding& finding,
                         const analyzer::rows::Report& report);

  [[nodiscard]] const std::vector<Suppression>& rows() const { return rows_; }

 private:
  std::vector<Suppression> rows_;
};

// A line for a suppressions file that hides the finding. Empty if neither the function nor the line
// is known: a pattern with only a module or an owner would hide too much.
[[nodiscard]] std::string suppression_for(const analyzer::rows::Finding& finding);

}  // namespace gpumemtrace::tools
