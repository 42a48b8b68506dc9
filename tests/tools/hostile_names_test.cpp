// SPDX-License-Identifier: Apache-2.0
// Every name that a trace can hold gets characters that steer terminals, build servers and XML, and
// goes through every text that is made of a report.
#include <string>
#include <vector>

#include "analyzer/analyze.hpp"
#include "analyzer/base/printable.hpp"
#include "analyzer/json/report_json.hpp"
#include "tests/catch.hpp"
#include "tests/support/stack_records.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/trace_builder.hpp"
#include "tools/base/text.hpp"
#include "tools/check/verdict_output.hpp"
#include "tools/diff/difference.hpp"
#include "tools/export/exports.hpp"
#include "tools/live/live_state.hpp"
#include "tools/live/live_text.hpp"
#include "tools/report_view/printable_report.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/summary/summary_text.hpp"
#include "tools/whatif/what_if_text.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::tools::hostile_names_test {
namespace {

using tests::TraceBuilder;

const std::string kHostile =
    "\n::error "
    "file=a::forged\n##[error]forged\x1b[2J\b\r\x7f\xc2\x9b\xe2\x80\xae\xe2\x80\xa8\xef\xbf\xbf"
    "\xed\xb3\xa9\xe9";

std::string hostile(const char* name) { return name + kHostile; }

std::filesystem::path write_trace(const tests::TemporaryFolder& folder) {
  TraceBuilder trace;
  for (std::uint32_t key = 1; key <= 40; ++key) {
    if (key == 5 || key == 6 || key == 7) continue;  // keys whose values are numbers
    // Key 22 is the program's suppressions; text that is no suppression is refused.
    trace.text(static_cast<trace::TextKey>(key), hostile(key == 22 ? "leak:text" : "text"));
  }
  trace::Device device;
  device.ordinal = 0;
  device.total_bytes = 1 << 30;
  trace.add(device, 1, hostile("GPU"));
  trace.module(0x1000, 0x2000, "/lib/" + hostile("module"));
  trace.api(1, hostile("cuMemAlloc"), hostile("cudaMalloc"));
  trace::Thread thread;
  trace.add(thread, 1, hostile("thread"));
  tests::add_code(trace, 1, hostile("function"), "/home/" + hostile("file.py"));
  tests::add_stack(trace, 1, {.python = {1}, .native = {}});
  trace::Name name;
  name.id = 1;
  trace.add(name, 1, hostile("name"));
  for (const auto operation :
       {trace::AnnotationOperation::kPush, trace::AnnotationOperation::kMark}) {
    trace::Annotation annotation;
    annotation.operation = operation;
    annotation.name = 1;
    trace.add(annotation);
  }
  trace.mark(trace::MarkKind::kUser, hostile("mark"));
  trace.mark(trace::MarkKind::kDisabled, hostile("reason"));
  for (std::uint64_t step = 1; step < 30; ++step) {
    trace.step(step);
    trace::Allocation allocation;
    allocation.address = step << 32;
    allocation.bytes = 1 << 20;
    allocation.memory = trace::MemoryKind::kDevice;
    allocation.call.stack = trace::StackId{1};
    trace.add_call(allocation, {});
  }
  return trace.write(folder.path());
}

void check_text(const std::string& text, const char* what) {
  INFO(what << ":\n" << text);
  CHECK(analyzer::printable_lines(text) == text);
}

}  // namespace

TEST_CASE("no name of a trace or a report steers what shows it", "[unit]") {
  const tests::TemporaryFolder folder;
  const std::filesystem::path trace = write_trace(folder);
  const std::string json = analyzer::to_text(analyzer::analyze({trace}, {}));
  check_text(json, "report");
  CHECK(json.find("function\\n::error") != std::string::npos);  // JSON has the name itself
  const std::filesystem::path saved = folder.write("report.json", json);
  for (const std::filesystem::path& input : {trace, saved}) {
    LoadOptions options;
    if (input == trace) options.what_if.emplace();
    const analyzer::rows::Report report = load_printable_report({input}, options);
    check_text(summary_text(report), "summary");
    if (report.what_if) check_text(what_if_text(report), "whatif");
    Policy policy;
    apply_policy_text("max-leak = 0\nmax-peak = 1\nfail-on = any\n", "test", policy);
    Suppressions suppressions;
    suppressions.add_embedded(report);
    const Verdict verdict = judge(report, policy, std::move(suppressions), nullptr);
    check_text(verdict_text(verdict, {trace}), "verdict");
    check_text(verdict_junit(verdict), "JUnit");
    check_text(verdict_markdown(verdict), "Markdown");
    check_text(verdict_json(verdict), "verdict as JSON");
    check_text(verdict_sarif(verdict, "/src"), "SARIF");
    CHECK(verdict_text(verdict, {trace}).letters().find("\\x1b[2J") !=
          std::string::npos);  // the text shows it as an escape
    // The only workflow commands in the text are those of the tool itself, which all have a title.
    for (const std::string& line : split(verdict_github(verdict, "/src"), "\n")) {
      const bool is_command = line.starts_with("::");
      if (is_command) CHECK(line.find("title=") != std::string::npos);
      check_text(is_command ? line.substr(2) : line, "GitHub");
    }
    Difference difference;
    difference.sections = compare_jobs(report, report);
    check_text(difference_text(difference), "difference");
    check_text(collapsed_stacks(report, {}), "collapsed stacks");
    check_text(flame_graph_svg(report, {}), "SVG");
    check_text(speedscope_profile(report, {}), "speedscope");
  }
  analyzer::Follower follower({trace}, {});
  analyzer::JobNow now = follower.look();
  now.report = printable(std::move(now.report));
  for (const std::string& line : live_lines(live_state_of(now, {}), 200, 100))
    check_text(line, "live");
}

}  // namespace gpumemtrace::tools::hostile_names_test
