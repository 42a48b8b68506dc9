// SPDX-License-Identifier: Apache-2.0
// The command line program `gpumemtrace`: picks the subcommand and turns failures into exit codes.
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/base/failure.hpp"
#include "tools/base/messages.hpp"
#include "tools/base/text.hpp"
#include "tools/cli/command_line.hpp"
#include "tools/commands/command.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kEnoughBytes = std::size_t{2} << 20;
constexpr std::size_t kUsualBytes = std::size_t{8} << 20;

bool limit_is_small() {
  struct rlimit limit = {};
  return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kEnoughBytes;
}

// Sets the default stack size of new threads in this process.
bool set_usual_stack(std::size_t bytes) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  const bool is_set = pthread_attr_setstacksize(&attributes, bytes) == 0 &&
                      pthread_setattr_default_np(&attributes) == 0;
  pthread_attr_destroy(&attributes);
  return is_set;
}

struct Call {
  const std::function<int()>& work;
  int result = 0;
};

void* run_call(void* argument) {
  auto* const call = static_cast<Call*>(argument);
  call->result = call->work();
  return nullptr;
}

// Runs `work`, which must not throw, and returns its result. If the stack limit (`ulimit -s`) is
// small, `work` and the threads that it starts get larger stacks: libdw alone needs 150 KiB to read
// the line table of a file.
//
// With a small limit, `work` runs on a new thread, which receives all signals.
int with_enough_stack(const std::function<int()>& work) {
  Call call{work};
  pthread_t thread = {};
  if (!limit_is_small() || !set_usual_stack(kUsualBytes) ||
      pthread_create(&thread, nullptr, run_call, &call) != 0) {
    return work();
  }
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_join(thread, nullptr);
  return call.result;
}

struct Command {
  const char* name;
  const char* summary;
  Define define;
};

constexpr auto kCommands = std::to_array<Command>({
    {"run", "Run a command and record its GPU memory.", define_run},
    {"env", "Print what a launcher needs to record programs.", define_env},
    {"analyze", "Turn traces into the JSON report.", define_analyze},
    {"merge", "Join partial reports to the report of a job.", define_merge},
    {"reduce", "Put partial reports in place of traces.", define_reduce},
    {"summary", "Show the report on the terminal.", define_summary},
    {"report", "Write the report as one page for a browser.", define_report},
    {"check", "Judge a job by a policy, for build servers.", define_check},
    {"whatif", "Replay PyTorch's allocator under other settings.", define_whatif},
    {"explain", "Explain the out-of-memory error in a log.", define_explain},
    {"live", "Show what a running job holds.", define_live},
    {"diff", "Say what changed between two jobs or two steps.", define_diff},
    {"export", "Write the job in a format of other viewers.", define_export},
    {"symbolize", "Write the names of native code to a file.", define_symbolize},
    {"dump", "Print every record of a trace.", define_dump},
    {"ctl", "Start, stop or mark a recording that runs.", define_ctl},
    {"doctor", "Say what works on this machine and why not.", define_doctor},
});

constexpr const char* kProgramFooter =
    R"(The usual course:
  gpumemtrace run -- python3 train.py     records a trace, NAME.gmt
  gpumemtrace summary NAME.gmt            shows peak, holders, leaks, copies
  gpumemtrace report NAME.gmt -o r.html   draws it, for any browser
  gpumemtrace analyze NAME.gmt            prints all of it as JSON
  gpumemtrace check NAME.gmt --max-leak 0 fails where memory leaked

`gpumemtrace help COMMAND` has options, examples and exit codes.)";

// The words for the parser, and those behind the first bare `--`.
struct Arguments {
  std::vector<std::string> parsed;
  std::vector<std::string> after_dashes;
};

// Only `run` hands words behind `--` on; for every other command they are its own operands.
Arguments split_arguments(int count, char** words) {
  std::vector<std::string> all(words + 1, words + count);
  const bool is_run = !all.empty() && all.front() == "run";
  const auto dashes = is_run ? std::ranges::find(all, "--") : all.end();
  Arguments arguments;
  if (dashes != all.end()) arguments.after_dashes.assign(dashes + 1, all.end());
  all.erase(dashes, all.end());
  arguments.parsed = std::move(all);
  return arguments;
}

// `gpumemtrace` alone and `gpumemtrace help [COMMAND]` ask for help, as --help does.
void ask_for_help(std::vector<std::string>& arguments) {
  if (arguments.empty()) arguments = {"help"};
  if (arguments.front() != "help") return;
  arguments.erase(arguments.begin());
  if (arguments.size() > 1) {
    throw Failure("help takes one command, as in `gpumemtrace help summary`", ExitCode::kUsage);
  }
  arguments.emplace_back("--help");
}

// Throws Failure for an unknown command and suggests the nearest; the parser's own error would say
// only that a subcommand is missing.
void require_known_command(const std::vector<std::string>& arguments) {
  const std::string& first = arguments.front();
  std::vector<std::string> known;
  for (const Command& command : kCommands) {
    if (first == command.name) return;
    known.emplace_back(command.name);
  }
  for (const std::string_view option : {"-h", "--help", "--version"}) {
    if (first == option) return;
  }
  const std::string nearest = first.starts_with("-") ? "" : nearest_name(first, known);
  throw Failure("there is no command '" + first + "'" +
                    (nearest.empty() ? "." : "; did you mean " + nearest + "?") + " There are " +
                    joined(known) + "; see `gpumemtrace --help`",
                ExitCode::kUsage);
}

int dispatch(int count, char** words) {
  const std::string version = std::string("gpumemtrace " GPUMEMTRACE_VERSION "\ncommit ") +
                              kSourceCommit + ", built with " GPUMEMTRACE_BUILT_WITH;
  Program program({.name = "gpumemtrace",
                   .summary = "Records and explains the GPU memory of CUDA programs.",
                   .version = version,
                   .footer = kProgramFooter});
  Arguments arguments = split_arguments(count, words);
  ask_for_help(arguments.parsed);
  require_known_command(arguments.parsed);
  std::vector<Action> actions;
  for (const Command& command : kCommands) {
    CommandLine& line = program.add_command(command.name, command.summary);
    actions.push_back(command.define(line, arguments.after_dashes));
  }
  const std::optional<std::size_t> chosen = program.parse(std::move(arguments.parsed));
  if (!chosen) return to_int(ExitCode::kSuccess);
  const int exit_code = actions[*chosen]();
  // A failed write to stdout must not replace the exit code of a verdict, or of the command that
  // `run` ran.
  if (std::fflush(stdout) != 0 && exit_code == to_int(ExitCode::kSuccess)) {
    throw Failure(std::string("cannot write to stdout: ") + std::strerror(errno) +
                  "; see whether its disk is full");
  }
  return exit_code;
}

// Runs the command line. Turns every exception into a message and an exit code.
int run_command_line(int count, char** words) noexcept {
  try {
    return dispatch(count, words);
  } catch (const Failure& failure) {
    report_failure(failure.what());
    return to_int(failure.exit_code());
  } catch (const std::exception& unexpected) {
    report_failure(unexpected.what());
    return to_int(ExitCode::kFailure);
  }
}

}  // namespace

}  // namespace gpumemtrace::tools

int main(int argc, char** argv) {
  using namespace gpumemtrace::tools;
  return with_enough_stack([&] { return run_command_line(argc, argv); });
}
