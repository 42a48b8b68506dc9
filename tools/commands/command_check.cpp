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
  CheckRequest request;
  PolicyOptions policy;
  ThresholdOptions thresholds;
  bool json = false;
};

void add_file_options(CommandLine& line, CheckOptions& options) {
  VerdictFiles& files = options.request.files;
  line.flag("--write-baseline", options.request.write_baseline,
            "Write what the job does now into the baseline's FILE.");
  line.flag("--json", options.json, "Print the verdict as JSON instead of text.");
  line.option("--junit", files.junit, "Write the verdict as JUnit XML.").value_name("FILE");
  line.option("--sarif", files.sarif, "Write the findings as SARIF 2.1.0.").value_name("FILE");
  line.flag("--github", files.github,
            "Print annotations for GitHub Actions and add the step summary.");
}

}  // namespace

Action define_check(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kCheckFooter);
  auto options = std::make_shared<CheckOptions>();
  line.option("INPUT", options->request.inputs, "Traces (*.gmt), folders of traces, or one report.")
      .required()
      .value_name("");
  options->policy.add_options(line);
  add_file_options(line, *options);
  options->thresholds.add_options(line);
  add_naming_options(line, options->request.naming);
  return [options] {
    CheckRequest& request = options->request;
    request.policy = options->policy.policy();
    request.thresholds = options->thresholds.values();
    if (options->json) request.print = VerdictPrint::kJson;
    return check_job(request);
  };
}

}  // namespace gpumemtrace::tools
