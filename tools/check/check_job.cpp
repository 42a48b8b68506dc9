// SPDX-License-Identifier: Apache-2.0
#include "tools/check/check_job.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tools/base/messages.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/terminal.hpp"
#include "tools/base/text.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/report_view/output_rules.hpp"
#include "tools/report_view/recorded_jobs.hpp"
#include "tools/report_view/report_input.hpp"

namespace gpumemtrace::tools {
namespace {

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
  if (!files.json.empty()) write_output(files.json, verdict_json(verdict));
  if (!files.junit.empty()) write_output(files.junit, verdict_junit(verdict));
  if (!files.sarif.empty()) write_output(files.sarif, verdict_sarif(verdict, root));
  if (files.github) {
    write_text(stdout, verdict_github(verdict, root));
    add_step_summary(verdict);
  }
  if (request.print == VerdictPrint::kJson) {
    write_text(stdout, verdict_json(verdict));
  } else {
    std::FILE* const stream = request.print == VerdictPrint::kText ? stdout : stderr;
    write_text(stream,
               styled(verdict_text(verdict, request.inputs), style_of(stream, request.color)));
  }
}

// Loads the report to judge. Adds to `notes` which traces were left out, and that several jobs are
// judged together.
analyzer::rows::Report load_judged(const CheckRequest& request, std::vector<std::string>& notes) {
  LoadOptions load = request.load;
  load.tell_left_out = false;
  if (request.policy.max_what_if_bytes) {
    load.what_if = {{}, {*request.policy.max_what_if_bytes}, true};
  }
  analyzer::rows::Report report = load_printable_report(request.inputs, load);
  if (const std::string traces = left_out_traces(report); !traces.empty()) {
    notes.push_back("left out " + traces);
  }
  if (const std::string jobs = several_jobs_text(report); !jobs.empty()) {
    notes.push_back(jobs + "; all of them are judged together");
  }
  return report;
}

void require_complete(const analyzer::rows::Report& report) {
  if (const std::vector<std::string> missing = missing_events(report); !missing.empty()) {
    throw Failure(
        format_text("the traces miss events and make no baseline, which would accept what "
                    "it cannot see: {} Record again, or use --allow-incomplete",
                    missing.front()),
        ExitCode::kIncomplete);
  }
  if (report.leaks.state != analyzer::rows::LeakState::kChecked) {
    throw Failure(
        "a process did not end by exit, so that its leaks are not known and make no "
        "baseline; let it end, or use --allow-incomplete",
        ExitCode::kIncomplete);
  }
}

// Throws Failure if the traces miss events or hold none, or if a process did not end by exit,
// unless the policy allows that: nobody shall accept a baseline of memory use that was not
// recorded.
void require_whole(const analyzer::rows::Report& report, const Policy& policy) {
  if (!policy.allow_incomplete) require_complete(report);
  std::uint64_t events = 0;
  for (const analyzer::rows::Trace& trace : report.traces) events += trace.events;
  if (events == 0 && !policy.allow_empty) {
    throw Failure(
        "the traces hold no CUDA call, so they make no baseline; use --allow-empty if "
        "that is right");
  }
}

int write_baseline(const analyzer::rows::Report& report, const Policy& policy) {
  require_whole(report, policy);
  Baseline baseline;
  if (std::filesystem::exists(policy.baseline)) baseline = Baseline::read(policy.baseline);
  BaselineEntry entry = baseline_of(report);
  const std::size_t findings = entry.findings.size();
  baseline.put(std::move(entry));
  write_output(policy.baseline, baseline.text());
  say(format_text("wrote {} with {}{}", policy.baseline.string(),
                  count_of(findings, "finding", "findings"),
                  policy.is_default() ? "" : "; the policy's limits were not judged"));
  return to_int(ExitCode::kSuccess);
}

void refuse_verdict_of_baseline(const CheckRequest& request) {
  const VerdictFiles& files = request.files;
  const bool has_verdict = !files.json.empty() || !files.junit.empty() || !files.sarif.empty() ||
                           files.github || request.print == VerdictPrint::kJson;
  if (!has_verdict) return;
  throw Failure(
      "--write-baseline gives no verdict, so there is nothing to write for --json, "
      "--junit, --sarif, --github or --verdict-file; leave them out",
      ExitCode::kUsage);
}

}  // namespace

void require_sense(const CheckRequest& request) {
  const Policy& policy = request.policy;
  if (!request.files.page_url.empty() && !request.files.github) {
    throw Failure("--page-url needs --github, which writes the step summary", ExitCode::kUsage);
  }
  if (request.write_baseline && policy.baseline.empty()) {
    throw Failure("--write-baseline needs --baseline FILE, which it writes", ExitCode::kUsage);
  }
  if (request.write_baseline) refuse_verdict_of_baseline(request);
  OutputRules rules(request.force);
  rules.reads(request.inputs);
  rules.reads(policy.suppression_files);
  rules.reads(request.load.naming.symbols);
  rules.reads(request.load.naming.owners);
  if (request.write_baseline) rules.require_writable(policy.baseline, kBaselineMark);
  rules.reads(policy.baseline);
  rules.require_writable(request.files.json, "\"gpumemtrace-verdict\"");
  rules.require_writable(request.files.junit, "<testsuite name=\"gpumemtrace\"");
  rules.require_writable(request.files.sarif, "\"name\": \"gpumemtrace\"");
}

void VerdictOptions::add_options(CommandLine& line) {
  line.flag("--write-baseline", write_baseline,
            "Write what the job does now into the baseline's FILE.");
  line.flag("--json", json, "Print the verdict as JSON instead of text.");
  line.option("--verdict-file", files.json, "Write the verdict there as JSON.").value_name("FILE");
  line.option("--junit", files.junit, "Write the verdict as JUnit XML.").value_name("FILE");
  line.option("--sarif", files.sarif, "Write the findings as SARIF 2.1.0.").value_name("FILE");
  line.flag("--github", files.github,
            "Print annotations for GitHub Actions and add the step summary.");
  line.option("--page-url", files.page_url,
              "Link from the step summary to the page that `report` made of the run.")
      .value_name("URL");
}

bool VerdictOptions::given() const {
  return json || write_baseline || files.github || !files.page_url.empty() || !files.json.empty() ||
         !files.junit.empty() || !files.sarif.empty();
}

int check_job(const CheckRequest& request) {
  require_sense(request);
  Suppressions suppressions;
  for (const auto& file : request.policy.suppression_files) suppressions.add_file(file);
  if (is_without_trace(request.inputs)) {
    if (request.write_baseline)
      throw Failure("there is no trace, so there is no baseline to write");
    const Verdict verdict = judge_nothing(request.policy);
    publish(verdict, request);
    return to_int(describe(verdict.outcome).exit_code);
  }
  std::vector<std::string> notes;
  const analyzer::rows::Report report = load_judged(request, notes);
  suppressions.add_embedded(report);
  if (request.write_baseline) return write_baseline(report, request.policy);
  Baseline baseline;
  const bool has_baseline = !request.policy.baseline.empty();
  if (has_baseline) baseline = Baseline::read(request.policy.baseline);
  Verdict verdict =
      judge(report, request.policy, std::move(suppressions), has_baseline ? &baseline : nullptr);
  verdict.notes = std::move(notes);
  verdict.baseline = request.policy.baseline;
  verdict.page_url = request.files.page_url;
  publish(verdict, request);
  return to_int(describe(verdict.outcome).exit_code);
}

}  // namespace gpumemtrace::tools
