// SPDX-License-Identifier: Apache-2.0
// A verdict in the forms that people and build servers read. Pure functions.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/check/verdict.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {

// The most frames of a finding's stack that are shown.
inline constexpr std::size_t kMaxFramesOfFinding = 4;

// The verdict for a terminal: first the result, then the reason, then how to accept or suppress it.
// `inputs` are those that the user named, for the suggested commands.
[[nodiscard]] StyledText verdict_text(const Verdict& verdict,
                                      const std::vector<std::filesystem::path>& inputs);
[[nodiscard]] std::string verdict_json(const Verdict& verdict);
// JUnit XML with one test case for each check.
[[nodiscard]] std::string verdict_junit(const Verdict& verdict);
// SARIF 2.1.0. Paths below `root` are relative to it, as GitHub's code scanning expects.
[[nodiscard]] std::string verdict_sarif(const Verdict& verdict, const std::filesystem::path& root);
// Workflow commands for GitHub Actions: annotations of the worst findings.
[[nodiscard]] std::string verdict_github(const Verdict& verdict, const std::filesystem::path& root);
// Markdown for the step summary of GitHub Actions.
[[nodiscard]] std::string verdict_markdown(const Verdict& verdict);

// The path relative to `root` if it lies below, else as it is.
[[nodiscard]] std::string path_below(const std::string& path, const std::filesystem::path& root);
// The check's name for people: "max-peak (driver on d0)".
[[nodiscard]] std::string title_of(const PolicyCheck& check);
// If the check fails, the call sites that held, copied or grew: a title, then a line for each one,
// such as "  1.0 GiB  pytorch at train.py:3". Empty if the check names none.
[[nodiscard]] std::vector<std::string> holder_lines(const PolicyCheck& check);

}  // namespace gpumemtrace::tools
