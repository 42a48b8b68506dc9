// SPDX-License-Identifier: Apache-2.0
#include "tools/check/check_job.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tools/base/messages.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/text.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/report_view/report_input.hpp"

namespace gpumemtrace::tools {
namespace {

std::string dump(const Json& json) {
  // A name in the traced program need not be valid UTF-8.
  return json.dump(2) + "\n";
}

void add_step_summary(const Verdict& verdict) {
  const char* const path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || *path == '\0') return;
  std::ofstream file(path, std::ios::app);
  file << verdict_markdown(verdict);
  file.close();
  if (!file) warn(format_text("cannot write the step summary {}", path));
}

void publish(const Verdict& verdict, const CheckRequest& request) {
  const std::filesystem::path root = std::filesystem::current_path();
  const VerdictFiles& files = request.files;
  if (!files.json.empty()) write_output(files.json, dump(verdict_json(verdict)));
  if (!files.junit.empty()) write_output(files.junit, verdict_junit(verdict));
  if (!files.sarif.empty()) write_output(files.sarif, dump(verdict_sarif(verdict, root)));
  if (files.github) {
    write_text(stdout, verdict_github(verdict, root));
    add_step_summary(verdict);
  }
  if (request.print == VerdictPrint::kJson) {
    write_text(stdout, dump(verdict_json(verdict)));
  } else {
    print_text(request.print == VerdictPrint::kText ? stdout : stderr, "{}",
               verdict_text(verdict, request.inputs));
  }
}

int write_baseline(const analyzer::rows::Report& report, const Policy& policy) {
  if (policy.baseline.empty()) {
    throw Failure("--write-baseline needs --baseline FILE, which it writes", ExitCode::kUsage);
  }
  Baseline baseline;
  if (std::filesystem::exists(policy.baseline)) baseline = Baseline::read(policy.baseline);
  BaselineEntry entry = baseline_of(report);
  const std::size_t findings = entry.findings.size();
  baseline.put(std::move(entry));
  write_output(policy.baseline, baseline.text());
  say(format_text("wrote {} with {}", policy.baseline.string(),
                  count_of(findings, "finding", "findings")));
  return to_int(ExitCode::kSuccess);
}

}  // namespace

int check_job(const CheckRequest& request) {
  Suppressions suppressions;
  for (const auto& file : request.policy.suppression_files) suppressions.add_file(file);
  if (is_without_trace(request.inputs)) {
    const Verdict verdict = judge_nothing(request.policy);
    publish(verdict, request);
    return to_int(exit_code_of(verdict.outcome));
  }
  const analyzer::rows::Report report =
      load_rows(request.inputs, request.naming, request.thresholds);
  suppressions.add_embedded(report);
  if (request.write_baseline) return write_baseline(report, request.policy);
  Baseline baseline;
  const bool has_baseline = !request.policy.baseline.empty();
  if (has_baseline) baseline = Baseline::read(request.policy.baseline);
  const Verdict verdict =
      judge(report, request.policy, std::move(suppressions), has_baseline ? &baseline : nullptr);
  publish(verdict, request);
  return to_int(exit_code_of(verdict.outcome));
}

}  // namespace gpumemtrace::tools
