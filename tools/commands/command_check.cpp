// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "tools/check/check_job.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kCheckFooter =
    R"TEXT(INPUT is a trace, a report or a folder of traces; several traces are one job. Without a
policy, every exact finding of severity error fails: lost memory, out of memory, invalid frees.
With a policy, only what it names fails. docs/ci.md has recipes for build servers.

Examples:
  gpumemtrace check job.gmt --max-leak 0 --max-peak 38GiB
  gpumemtrace check traces/ --baseline memory.json --max-regression 5%,8MiB
  gpumemtrace run --check --max-leak 0 -- ./my_test

Exit codes: 0 the policy holds, 1 an input cannot be read, nothing was traced or the baseline is
of another environment, 2 usage, 23 the policy is violated, 24 the traces miss events.)TEXT";

struct CheckOptions {
  std::vector<std::filesystem::path> inputs;
  PolicyOptions policy;
  VerdictOptions verdict;
  AnalysisOptions analysis;
  bool force = false;
  std::string color = "auto";
};

int check(const CheckOptions& options) {
  CheckRequest request;
  request.inputs = options.inputs;
  request.policy = options.policy.policy();
  if (options.analysis.require_complete) request.policy.allow_incomplete = false;
  request.load = options.analysis.load_options();
  request.files = options.verdict.files;
  if (options.verdict.json) request.print = VerdictPrint::kJson;
  request.write_baseline = options.verdict.write_baseline;
  request.force = options.force;
  request.color = options.color;
  return check_job(request);
}

}  // namespace

Action define_check(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kCheckFooter);
  auto options = std::make_shared<CheckOptions>();
  line.option("INPUT", options->inputs, "Traces (*.gmt), folders of traces, or one report.")
      .required()
      .value_name("");
  options->policy.add_options(line);
  options->verdict.add_options(line);
  add_force_option(line, options->force);
  add_color_option(line, options->color);
  options->analysis.add_options(line);
  options->analysis.thresholds.add_options(line);
  return [options] { return check(*options); };
}

}  // namespace gpumemtrace::tools
