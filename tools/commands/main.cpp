// SPDX-License-Identifier: Apache-2.0
// The command line program `gpumemtrace`: picks the subcommand and turns failures into exit codes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/base/failure.hpp"
#include "tools/base/messages.hpp"
#include "tools/cli/help_formatter.hpp"
#include "tools/commands/command.hpp"

namespace gpumemtrace::tools {
namespace {

struct Command {
  const char* name;
  const char* summary;
  Define define;
};

constexpr auto kCommands = std::to_array<Command>({
    {"run", "Run a command and record its GPU memory.", define_run},
    {"env", "Print what to paste so that a launcher records its programs.", define_env},
    {"analyze", "Turn traces into the JSON report.", define_analyze},
    {"summary", "Show the report on the terminal.", define_summary},
    {"check", "Judge a job by a policy, for build servers.", define_check},
    {"diff", "Say what changed between two jobs or two steps.", define_diff},
    {"export", "Write stacks with their bytes for flame graph viewers.", define_export},
    {"symbolize", "Write the names of native code for an analysis elsewhere.", define_symbolize},
    {"dump", "Print every record of a trace.", define_dump},
    {"ctl", "Start, stop or mark the recording of a running process.", define_ctl},
    {"doctor", "Say what works on this machine and why not.", define_doctor},
});

constexpr const char* kProgramFooter =
    R"(The usual course:
  gpumemtrace run -- python3 train.py     records a trace, NAME.gmt
  gpumemtrace summary NAME.gmt            shows peak, holders, leaks, copies
  gpumemtrace analyze NAME.gmt            prints all of it as JSON
  gpumemtrace check NAME.gmt --max-leak 0 fails where memory leaked

`gpumemtrace COMMAND --help` has options, examples and exit codes.)";

// What CLI11 gets, and what stands behind the first bare `--`.
struct Arguments {
  std::vector<std::string> parsed;
  std::vector<std::string> after_dashes;
};

// Only `run` hands words behind `--` on; for every other command they are its own operands.
Arguments split_arguments(int count, char** words) {
  std::vector<std::string> all(words + 1, words + count);
  const bool is_run = !all.empty() && all.front() == "run";
  const auto dashes = is_run ? std::find(all.begin(), all.end(), "--") : all.end();
  Arguments arguments;
  if (dashes != all.end()) arguments.after_dashes.assign(dashes + 1, all.end());
  all.erase(dashes, all.end());
  arguments.parsed = std::move(all);
  return arguments;
}

// CLI11 says only that a subcommand is missing.
void require_known_command(const std::vector<std::string>& arguments) {
  std::string names;
  for (const Command& command : kCommands) {
    if (!arguments.empty() && arguments.front() == command.name) return;
    names += (names.empty() ? "" : ", ") + std::string(command.name);
  }
  for (const std::string_view option : {"-h", "--help", "--version"}) {
    if (!arguments.empty() && arguments.front() == option) return;
  }
  throw Failure((arguments.empty() ? "a command is missing"
                                   : "there is no command '" + arguments.front() + "'") +
                    "; known are " + names + "; see `gpumemtrace --help`",
                ExitCode::kUsage);
}

int dispatch(int count, char** words) {
  CLI::App app("Records and explains the GPU memory of CUDA programs.", "gpumemtrace");
  app.set_version_flag("--version", "gpumemtrace " GPUMEMTRACE_VERSION);
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());  // subcommands inherit it
  app.footer(kProgramFooter);

  Arguments arguments = split_arguments(count, words);
  require_known_command(arguments.parsed);
  Action chosen;
  for (const Command& command : kCommands) {
    CLI::App* const sub = app.add_subcommand(command.name, command.summary);
    const Action action = command.define(*sub, arguments.after_dashes);
    sub->final_callback([&chosen, action] { chosen = action; });
  }
  try {
    // CLI11 takes the arguments last first.
    std::reverse(arguments.parsed.begin(), arguments.parsed.end());
    app.parse(std::move(arguments.parsed));
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    throw Failure(std::string(error.what()) + "; see `gpumemtrace --help`", ExitCode::kUsage);
  }
  const int exit_code = chosen();
  if (std::fflush(stdout) != 0) {
    throw Failure(std::string("cannot write to stdout: ") + std::strerror(errno) +
                  "; see whether its disk is full");
  }
  return exit_code;
}

}  // namespace
}  // namespace gpumemtrace::tools

int main(int argc, char** argv) {
  using namespace gpumemtrace::tools;
  try {
    return dispatch(argc, argv);
  } catch (const Failure& failure) {
    report_failure(failure.what());
    return to_int(failure.exit_code());
  } catch (const std::exception& unexpected) {
    report_failure(unexpected.what());
    return to_int(ExitCode::kFailure);
  }
}
