// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "tools/base/failure.hpp"
#include "tools/base/messages.hpp"
#include "tools/base/shell_words.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/check/check_job.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/launch/child_process.hpp"
#include "tools/launch/launch_environment.hpp"
#include "tools/launch/recording_options.hpp"
#include "tools/report_view/reduced_traces.hpp"
#include "tools/summary/summary_text.hpp"
#include "tools/traces/output_folder.hpp"
#include "tools/traces/trace_files.hpp"
#include "tools/traces/untraced_reason.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kRunFooter =
    R"TEXT(The name in brackets is the environment variable of an option: with it a plain
LD_PRELOAD=libgpumemtrace.so works the same.

Examples:
  gpumemtrace run -- python3 train.py
  gpumemtrace run -o 'traces/%e.%r.gmt' -- torchrun --nproc-per-node=2 train.py
  gpumemtrace run --simulate -- ./driver_api_program
  gpumemtrace run --check --max-leak 0 -- ./my_test

--check judges the traces as `gpumemtrace check` does; options of a policy and of a verdict imply
it. --reduce and --drop-traces do what `gpumemtrace reduce` does, for the traces of this run.

Exit codes: those of the command (128 + signal where a signal ended it); where the command
returned 0, with --check those of `gpumemtrace check`;
1 the command could not be started, 2 usage.)TEXT";

// Programs that the simulated driver can run, and those that it cannot, as words of a sentence.
constexpr const char* kSimulated =
    "runs programs of CUDA's driver API, not those of the CUDA runtime (PyTorch, CuPy, programs "
    "made by nvcc)";

constexpr std::size_t kMostTracesListed = 4;

// Limits of the summary after a failed command: lines to print, and bytes of traces to read, which
// takes a few seconds.
constexpr std::size_t kLinesOfFailure = 10;
constexpr std::uint64_t kMostBytesToLookInto = std::uint64_t{256} << 20;

struct RunOptions {
  RecordingSettings recording;
  bool simulate = false;
  bool check = false;
  bool reduce = false;
  bool drop_traces = false;
  PolicyOptions policy;
  VerdictOptions verdict;
  std::string color = "auto";

  [[nodiscard]] bool reduces() const { return reduce || drop_traces; }
  [[nodiscard]] bool checks() const { return check || policy.given() || verdict.given(); }
};

std::string variable_value(const std::vector<EnvironmentVariable>& environment,
                           std::string_view name) {
  for (const EnvironmentVariable& variable : environment) {
    if (variable.name == name) return variable.value;
  }
  const char* const inherited = std::getenv(std::string(name).c_str());
  return inherited == nullptr ? std::string() : std::string(inherited);
}

bool is_on(const std::vector<EnvironmentVariable>& environment, std::string_view name) {
  const std::string value = variable_value(environment, name);
  return !value.empty() && value != "0" && value != "false" && value != "no";
}

// The current folder; empty if it was removed.
std::string current_folder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

// Makes an output pattern absolute, because the program may change its current folder before it
// writes. Percent signs of the folder's name are escaped: they are no fields of the pattern.
std::string absolute_pattern(const std::string& pattern) {
  const std::string folder = current_folder();
  if (pattern.starts_with("/") || folder.empty()) return pattern;
  return replaced(folder, {{'%', "%%"}}) + "/" + pattern;
}

std::vector<EnvironmentVariable> child_environment(const RunOptions& options) {
  std::vector<EnvironmentVariable> environment = options.recording.environment();
  for (EnvironmentVariable& variable : environment) {
    if (variable.name == kOutputVariable) variable.value = absolute_pattern(variable.value);
  }
  const std::filesystem::path library = find_library();
  environment.push_back(preload_variable(library));
  environment.push_back(run_variable());
  for (EnvironmentVariable& variable : nvtx_variables(library)) {
    environment.push_back(std::move(variable));
  }
  if (is_on(environment, kTorchNamesVariable)) {
    environment.push_back(python_path_variable(find_torch_names(library)));
  }
  if (options.simulate) environment.push_back(library_path_variable(find_simulated_driver()));
  return environment;
}

std::uint64_t realtime_ns() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count());
}

// A path as short as a user can type it in the current folder.
std::string display_path(const std::filesystem::path& path) {
  const std::string relative = path.lexically_proximate(current_folder()).string();
  return relative.starts_with("..") ? path.string() : relative;
}

// The input for `summary` in the next command: a few files by name, many by their folder.
std::string next_input(const std::vector<std::filesystem::path>& files) {
  if (files.size() > kMostTracesListed) {
    const std::filesystem::path folder = files.front().parent_path();
    return shell_word(folder.empty() ? "." : display_path(folder));
  }
  std::vector<std::filesystem::path> names;
  for (const std::filesystem::path& file : files) names.emplace_back(display_path(file));
  return shell_words(names);
}

// Prints the beginning of the summary after the command failed, as memory may have run out. Errors
// in reading the traces are ignored here: commands that the user runs on them later say so.
void print_failure_facts(const std::vector<std::filesystem::path>& inputs) {
  std::uint64_t bytes = 0;
  for (const std::filesystem::path& input : inputs) bytes += bytes_of(input);
  if (inputs.empty() || bytes > kMostBytesToLookInto) return;
  try {
    const analyzer::rows::Report report = load_printable_report(inputs, {});
    if (report.peak.empty()) return;
    write_text(stderr, summary_text(report, {.width = output_width(stderr),
                                             .inputs = {},
                                             .most_lines = kLinesOfFailure,
                                             .says_rest = false}));
  } catch (const std::exception&) {
    return;
  }
}

void print_written_traces(const std::vector<WrittenTrace>& traces) {
  for (std::size_t i = 0; i < std::min(traces.size(), kMostTracesListed); ++i) {
    const WrittenTrace& trace = traces[i];
    say(format_text("wrote {} ({}, process {})", display_path(trace.path), size_text(trace.bytes),
                    trace.process_id));
  }
  if (traces.size() > kMostTracesListed) {
    say(format_text("and {} more traces", traces.size() - kMostTracesListed));
  }
}

CheckRequest check_request(const RunOptions& options, bool force) {
  CheckRequest request;
  request.policy = options.policy.policy();
  request.files = options.verdict.files;
  request.print = options.verdict.json ? VerdictPrint::kJson : VerdictPrint::kTextToStderr;
  request.write_baseline = options.verdict.write_baseline;
  request.force = force;
  request.color = options.color;
  return request;
}

// Checks the traces that the command left; returns the exit code of the verdict.
int check_inputs(CheckRequest request, const std::vector<std::filesystem::path>& inputs) {
  for (const std::filesystem::path& input : inputs) {
    request.inputs.emplace_back(display_path(input));
  }
  try {
    return check_job(request);
  } catch (const Failure& failure) {
    report_failure(failure.what());
    return to_int(failure.exit_code());
  }
}

// The part of the output's path that is the same for all traces.
std::filesystem::path output_folder(const std::vector<EnvironmentVariable>& environment) {
  const std::string pattern = variable_value(environment, kOutputVariable);
  return std::filesystem::path(pattern.substr(0, pattern.find('%'))).parent_path();
}

// Warns if traces go to a network file system. Said before the run, because nobody would know later
// why the program hung.
void warn_of_network(const std::vector<EnvironmentVariable>& environment) {
  const std::filesystem::path folder = existing_folder(output_folder(environment));
  const std::string_view network = network_file_system_of(folder);
  if (network.empty() || is_on(environment, "GPUMEMTRACE_QUIET")) return;
  say(
      format_text("{} is on {}: the command stands still while the server does not answer; record "
                  "to a folder of this machine with -o",
                  display_path(folder), network));
}

std::string explain_empty_recording(const RunOptions& options,
                                    const std::vector<EnvironmentVariable>& environment,
                                    const std::vector<std::string>& command) {
  const std::string unwritable = why_unwritable(output_folder(environment));
  if (!unwritable.empty()) return unwritable;
  if (is_on(environment, "GPUMEMTRACE_START_PAUSED")) {
    return "recording started paused and `gpumemtrace ctl PID start` may not have come";
  }
  const std::string why = why_untraced(command);
  return options.simulate ? why + "; --simulate " + kSimulated : why;
}

// Ignores SIGPIPE and SIGXFSZ: the command has ended and its exit code must be returned, even if
// our own messages cannot be written.
void keep_own_output_from_ending_us() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

// True if the trace has the run's id `run`. False if it cannot be read, as then its process may
// still write it.
bool is_of_run(const std::filesystem::path& trace, const std::string& run) {
  try {
    return recorded_text(trace, trace::TextKey::kRun) == run;
  } catch (const trace::TraceError&) {
    return false;
  }
}

// Reduces the traces of this run only: other runs may still write theirs. Returns the files that
// are left to read: partial reports and traces.
std::vector<std::filesystem::path> reduce_own(const std::vector<std::filesystem::path>& traces,
                                              const std::string& run, bool deletes, bool quiet) {
  std::vector<std::filesystem::path> own = traces;
  const auto others =
      std::ranges::stable_partition(own, [&](const auto& trace) { return is_of_run(trace, run); });
  const std::vector<std::filesystem::path> of_others(others.begin(), others.end());
  own.erase(others.begin(), others.end());
  const Reduction reduction = reduce_traces(own, {}, deletes);
  if (!quiet) say_reduced(reduction, deletes);
  warn_of_kept(reduction);
  if (!deletes) return traces;
  std::vector<std::filesystem::path> left = reduction.partials;
  for (const KeptTrace& trace : reduction.kept) left.push_back(trace.path);
  left.insert(left.end(), of_others.begin(), of_others.end());
  return left;
}

// Prints which traces the command left, and checks them if asked to. Returns the verdict's exit
// code.
int report_run(const RunOptions& options, const CheckRequest& request,
               const std::vector<EnvironmentVariable>& environment,
               const std::vector<std::string>& command, std::uint64_t started_ns,
               const ChildEnd& end) {
  const bool quiet = is_on(environment, "GPUMEMTRACE_QUIET");
  if (end.signal != 0 && !quiet) {
    say(format_text("the command was ended by signal {} ({})", end.signal, strsignal(end.signal)));
  }
  std::vector<WrittenTrace> traces =
      find_written_traces(variable_value(environment, kOutputVariable), started_ns);
  record_end(traces, end);
  remove_spent_rings(traces);
  std::vector<std::filesystem::path> inputs;
  for (const WrittenTrace& trace : traces) inputs.push_back(trace.path);
  if (!quiet) print_written_traces(traces);
  if (options.reduces()) {
    inputs =
        reduce_own(inputs, variable_value(environment, kRunVariable), options.drop_traces, quiet);
  }
  if (traces.empty()) {
    warn("nothing was recorded: " + explain_empty_recording(options, environment, command));
  } else if (!quiet) {
    if (end.exit_code != 0 && !options.checks()) print_failure_facts(inputs);
    // CI is set on build servers, where nobody would type the suggested command.
    if (!is_on(environment, "CI")) {
      say(format_text("next: gpumemtrace summary {}", next_input(inputs)));
    }
  }
  return options.checks() ? check_inputs(request, inputs) : to_int(ExitCode::kSuccess);
}

int run_command(const RunOptions& options, const std::vector<std::string>& command) {
  const std::vector<EnvironmentVariable> environment = child_environment(options);
  const CheckRequest request = check_request(options, is_on(environment, "GPUMEMTRACE_FORCE"));
  // Options are checked before the run, so that a bad one fails at once and not hours later.
  if (options.checks()) require_sense(request);
  warn_of_network(environment);
  const std::uint64_t started_ns = realtime_ns();
  const ChildEnd end = run_child(command, environment);
  keep_own_output_from_ending_us();
  int exit_code = to_int(ExitCode::kSuccess);
  try {
    exit_code = report_run(options, request, environment, command, started_ns, end);
  } catch (const Failure& failure) {
    report_failure(failure.what());
    exit_code = to_int(failure.exit_code());
  } catch (const std::exception& unexpected) {
    report_failure(unexpected.what());
    exit_code = to_int(ExitCode::kFailure);
  }
  if (end.exit_code != 0) return end.exit_code;
  return options.checks() ? exit_code : to_int(ExitCode::kSuccess);
}

}  // namespace

Action define_run(CommandLine& line, const std::vector<std::string>& words_after_dashes) {
  line.footer(kRunFooter);
  line.takes_command("Usage: gpumemtrace run [OPTIONS] -- COMMAND [ARGUMENT...]");
  auto options = std::make_shared<RunOptions>();
  options->recording.add_options(line);
  line.flag("--simulate", options->simulate,
            std::string("Run on the simulated CUDA driver: no GPU is needed or used. It ") +
                kSimulated + ".");
  line.flag("--reduce", options->reduce,
            "Write a partial report beside each trace when the command has ended.");
  add_drop_option(line, options->drop_traces);
  line.flag("--check", options->check, "Judge the traces when the command has ended.");
  options->policy.add_options(line);
  options->verdict.add_options(line);
  add_color_option(line, options->color);
  return [&line, &words_after_dashes, options] {
    std::vector<std::string> command = line.command();
    if (!command.empty() && command.front().starts_with("-")) {
      throw Failure(
          format_text("run has no option '{}'; see `gpumemtrace run --help`, and put `--` "
                      "before the command",
                      command.front()),
          ExitCode::kUsage);
    }
    command.insert(command.end(), words_after_dashes.begin(), words_after_dashes.end());
    if (command.empty()) {
      throw Failure("run needs a command, as in `gpumemtrace run -- python3 train.py`",
                    ExitCode::kUsage);
    }
    return run_command(*options, command);
  };
}

}  // namespace gpumemtrace::tools
