// SPDX-License-Identifier: Apache-2.0
// What main() knows about a subcommand.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/cli/cli_forward.hpp"

namespace gpumemtrace::tools {

// Carries out a subcommand whose options are parsed; returns the exit code of the process.
using Action = std::function<int()>;

// Adds a subcommand's options to `app` and returns what to do with them. `words_after_dashes` are
// the arguments behind a bare `--`; only `run` uses them. The vector outlives the action.
using Define = Action (*)(CLI::App& app, const std::vector<std::string>& words_after_dashes);

Action define_run(CLI::App& app, const std::vector<std::string>& words_after_dashes);
Action define_env(CLI::App& app, const std::vector<std::string>& words_after_dashes);
Action define_analyze(CLI::App& app, const std::vector<std::string>& words_after_dashes);
Action define_summary(CLI::App& app, const std::vector<std::string>& words_after_dashes);
Action define_check(CLI::App& app, const std::vector<std::string>& words_after_dashes);
Action define_diff(CLI::App& app, const std::vector<std::string>& words_after_dashes);
Action define_export(CLI::App& app, const std::vector<std::string>& words_after_dashes);
Action define_symbolize(CLI::App& app, const std::vector<std::string>& words_after_dashes);
Action define_dump(CLI::App& app, const std::vector<std::string>& words_after_dashes);
Action define_ctl(CLI::App& app, const std::vector<std::string>& words_after_dashes);
Action define_doctor(CLI::App& app, const std::vector<std::string>& words_after_dashes);

}  // namespace gpumemtrace::tools
