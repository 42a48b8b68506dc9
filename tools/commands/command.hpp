// SPDX-License-Identifier: Apache-2.0
// The interface of a subcommand for main().
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/cli/command_line.hpp"

namespace gpumemtrace::tools {

// Carries out a subcommand whose options are parsed; returns the exit code of the process.
using Action = std::function<int()>;

// Adds a subcommand's options to `line` and returns what to do with them. `words_after_dashes` are
// the arguments behind a bare `--`; only `run` uses them. The vector outlives the action.
using Define = Action (*)(CommandLine& line, const std::vector<std::string>& words_after_dashes);

Action define_run(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_env(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_analyze(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_merge(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_reduce(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_summary(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_check(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_whatif(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_explain(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_live(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_diff(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_export(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_report(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_symbolize(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_dump(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_ctl(CommandLine& line, const std::vector<std::string>& words_after_dashes);
Action define_doctor(CommandLine& line, const std::vector<std::string>& words_after_dashes);

// The source commit that `--version` prints; "unknown" without git. cmake/write_commit.cmake writes
// the file that defines it, at every build.
extern const char* const kSourceCommit;

}  // namespace gpumemtrace::tools
