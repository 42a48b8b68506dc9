// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <optional>

#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/diff/difference.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kDiffFooter =
    R"TEXT(BASE and NEW are a trace, a report or a folder of traces each. With @step:N behind both, two
steps are compared: of two runs or of one.

Examples:
  gpumemtrace diff before.gmt after.gmt
  gpumemtrace diff main.json branch.json --max-regression 5%,8MiB
  gpumemtrace diff run.gmt@step:3 run.gmt@step:30

Exit codes: 0 done, and nothing grew by more than --max-regression allows, 1 an input cannot be
read or has no such step, 2 usage, 23 something grew by more.)TEXT";

constexpr std::string_view kStepMark = "@step:";

struct DiffOptions {
  std::string base;
  std::string next;
  std::string max_regression;
  NamingOptions naming;
  bool json = false;
};

// "run.gmt@step:3": an input and, behind the mark, one of its steps.
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

std::vector<DifferenceSection> compare(const DiffOptions& options) {
  const DiffInput base = split_input(options.base);
  const DiffInput next = split_input(options.next);
  if (base.step.has_value() != next.step.has_value()) {
    throw Failure("one input names a step and the other does not; give both or none",
                  ExitCode::kUsage);
  }
  const analyzer::rows::Report base_report = load_rows({base.path}, options.naming);
  const analyzer::rows::Report next_report = load_rows({next.path}, options.naming);
  if (base.step) return compare_steps(base_report, *base.step, next_report, *next.step);
  return compare_jobs(base_report, next_report);
}

int diff(const DiffOptions& options) {
  const bool has_limit = !options.max_regression.empty();
  Policy policy;
  if (has_limit) apply_policy_text("max-regression = " + options.max_regression, "diff", policy);
  const std::vector<DifferenceSection> sections = compare(options);
  std::vector<DifferenceRow> regressions;
  if (has_limit) regressions = regressions_of(sections, policy.regression);
  if (options.json) {
    const Json json = difference_json(sections, regressions, has_limit);
    print_text(stdout, "{}\n", json.dump(2));
  } else {
    write_text(stdout, difference_text(sections, regressions, has_limit));
  }
  return to_int(regressions.empty() ? ExitCode::kSuccess : ExitCode::kViolated);
}

}  // namespace

Action define_diff(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kDiffFooter);
  auto options = std::make_shared<DiffOptions>();
  line.option("BASE", options->base, "What it was.").required().value_name("");
  line.option("NEW", options->next, "What it is now.").required().value_name("");
  line.option("--max-regression", options->max_regression,
              "Exit with 23 where a peak, a leak or copies grew by more (such as 5%,8MiB: the "
              "larger).")
      .value_name("SHARE|SIZE");
  line.flag("--json", options->json, "Print JSON instead of text.");
  add_naming_options(line, options->naming);
  return [options] { return diff(*options); };
}

}  // namespace gpumemtrace::tools
