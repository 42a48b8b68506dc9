// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>

#include "tools/base/failure.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/terminal.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/diff/difference.hpp"
#include "tools/report_view/step_moment.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kDiffFooter =
    R"TEXT(BASE and NEW are a trace, a report or a folder of traces each. With @step:N behind both, two
steps are compared: of two runs or of one.

Examples:
  gpumemtrace diff before.gmt after.gmt
  gpumemtrace diff main.json branch.json --max-regression 5%,8MiB
  gpumemtrace diff run.gmt@step:3 run.gmt@step:30

What is lost may not become more at all, whatever --max-regression allows.

Exit codes: 0 done, and nothing grew by more than --max-regression allows, 1 an input cannot be
read, holds no CUDA call or has no such step, 2 usage, 23 something grew by more, 24 an input misses
events, and --max-regression or --require-complete was given.)TEXT";

constexpr std::string_view kStepMark = "@step:";

struct DiffOptions {
  std::string base;
  std::string next;
  std::string max_regression;
  AnalysisOptions analysis;
  OutputOptions output;
  std::string color = "auto";
  bool json = false;
  bool allow_incomplete = false;
};

// An input of `diff`, such as "run.gmt@step:3": a path and, after the mark, an optional step of it.
struct DiffInput {
  std::string path;
  std::optional<std::uint64_t> step;
};

DiffInput split_input(const std::string& text) {
  const std::size_t mark = text.rfind(kStepMark);
  if (mark == std::string::npos) return {text, std::nullopt};
  const auto step = parse_number(std::string_view(text).substr(mark + kStepMark.size()));
  if (!step) {
    throw Failure(format_text("'{}' names no step; write INPUT@step:NUMBER", text),
                  ExitCode::kUsage);
  }
  return {text.substr(0, mark), step};
}

// The reasons why a report is not complete. If `diff` is used as a gate, a process that did not end
// by exit is one of them: its leaks are not known.
std::vector<std::string> missing_in(const analyzer::rows::Report& report, bool is_gate) {
  std::vector<std::string> missing = missing_events(report);
  if (is_gate && report.leaks.state != analyzer::rows::LeakState::kChecked) {
    missing.emplace_back("a process did not end by exit, so its leaks are not known");
  }
  return missing;
}

void require_events(const analyzer::rows::Report& report, const std::string& path) {
  for (const analyzer::rows::Trace& trace : report.traces) {
    if (trace.events != 0) return;
  }
  throw Failure(path + " holds no CUDA call, so --max-regression would check nothing");
}

// Throws Failure, beginning with the input's path, if the report lacks the step that the input
// names.
void require_step(const analyzer::rows::Report& report, const DiffInput& input) {
  if (!input.step) return;
  try {
    static_cast<void>(find_step(report, *input.step));
  } catch (const Failure& failure) {
    throw Failure(input.path + ": " + failure.what(), failure.exit_code());
  }
}

Difference difference_of_inputs(const DiffOptions& options, const DiffInput& base_input,
                                const DiffInput& next_input) {
  const LoadOptions load = options.analysis.load_options();
  const analyzer::rows::Report base = load_printable_report({base_input.path}, load);
  const analyzer::rows::Report next = load_printable_report({next_input.path}, load);
  require_step(base, base_input);
  require_step(next, next_input);
  Difference difference;
  difference.has_limit = !options.max_regression.empty();
  if (difference.has_limit) {
    require_events(base, base_input.path);
    require_events(next, next_input.path);
  }
  difference.sections = base_input.step
                            ? compare_steps(base, *base_input.step, next, *next_input.step)
                            : compare_jobs(base, next);
  difference.in_short = base_input.step
                            ? difference_in_short(base, *base_input.step, next, *next_input.step)
                            : difference_in_short(base, next);
  if (!base_input.step) {
    difference.new_findings = findings_only_in(next, base);
    difference.mended_findings = findings_only_in(base, next);
  }
  const bool sees_leaks = difference.has_limit && !base_input.step;
  difference.missing.base = missing_in(base, sees_leaks);
  difference.missing.next = missing_in(next, sees_leaks);
  difference.allows_incomplete = options.allow_incomplete;
  difference.changes = changes_of_environment(base, next);
  return difference;
}

ExitCode exit_code_of(const Difference& difference, bool requires_complete) {
  if (!difference.regressions.empty()) return ExitCode::kViolated;
  const bool is_gate = difference.has_limit || requires_complete;
  return is_gate && difference.is_incomplete() ? ExitCode::kIncomplete : ExitCode::kSuccess;
}

RegressionLimit limit_of(const std::string& text) {
  Policy policy;
  if (!text.empty()) apply_policy_text("max-regression = " + text, "diff", policy);
  return policy.regression.value_or(RegressionLimit());
}

int diff(const DiffOptions& options) {
  if (options.allow_incomplete && options.analysis.require_complete) {
    throw Failure("--allow-incomplete and --require-complete contradict each other; give one",
                  ExitCode::kUsage);
  }
  const RegressionLimit limit = limit_of(options.max_regression);
  const DiffInput base = split_input(options.base);
  const DiffInput next = split_input(options.next);
  if (base.step.has_value() != next.step.has_value()) {
    throw Failure("one input names a step and the other does not; give both or none",
                  ExitCode::kUsage);
  }
  options.output.require_writable({base.path, next.path}, options.analysis.naming);
  Difference difference = difference_of_inputs(options, base, next);
  if (difference.has_limit) difference.regressions = regressions_of(difference.sections, limit);
  const TextStyle style =
      options.output.output.empty() ? style_of(stdout, options.color) : TextStyle();
  write_output(options.output.output, options.json ? difference_json(difference)
                                                   : styled(difference_text(difference), style));
  return to_int(exit_code_of(difference, options.analysis.require_complete));
}

}  // namespace

Action define_diff(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kDiffFooter);
  auto options = std::make_shared<DiffOptions>();
  line.option("BASE", options->base, "What it was.").required().value_name("");
  line.option("NEW", options->next, "What it is now.").required().value_name("");
  line.option("--max-regression", options->max_regression,
              "Exit with 23 where a peak or copies grew by more (such as 5%,8MiB: the larger), or "
              "a leak at all.")
      .value_name("SHARE|SIZE");
  line.flag(
      "--allow-incomplete", options->allow_incomplete,
      "With --max-regression: an input that misses events is no failure (it is one otherwise).");
  line.flag("--json", options->json, "Print JSON instead of text.");
  add_color_option(line, options->color);
  options->output.add_options(line, "Write there instead of to stdout.");
  options->analysis.add_options(line);
  return [options] { return diff(*options); };
}

}  // namespace gpumemtrace::tools
