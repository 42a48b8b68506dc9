// SPDX-License-Identifier: Apache-2.0
#include "tools/summary/summary_text.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"

namespace gpumemtrace::tools {
namespace {

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(GPUMEMTRACE_SOURCE_DIR) + "/" + name);
  REQUIRE(file);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

Json example_report() { return Json::parse(read_file("docs/report.example.json")); }

std::size_t line_count(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

// After a wanted change: gpumemtrace summary docs/report.example.json > the golden file.
TEST_CASE("the example report is drawn as its golden text", "[unit]") {
  CHECK(summary_text(example_report()) == read_file("tests/tools/golden/summary_of_example.txt"));
}

TEST_CASE("a job of many ranks and kinds still fits the lines", "[unit]") {
  Json report = example_report();
  const auto repeat = [](Json& rows, std::size_t times) {
    const Json once = rows;
    for (std::size_t i = 1; i < times; ++i) {
      for (const Json& row : once) rows.push_back(row);
    }
  };
  for (const char* key : {"traces", "processes", "devices", "usage", "peak", "oom"}) {
    repeat(report.at(key), 16);
  }
  repeat(report.at("transfers").at("by_kind"), 16);
  repeat(report.at("leaks").at("exit"), 16);
  const std::string text = summary_text(report);
  CHECK(line_count(text) <= kMostSummaryLines);
  CHECK(has(text, "16 processes"));
  CHECK(has(text, "Next: "));
}

TEST_CASE("an incomplete trace is said to be so before any number", "[unit]") {
  Json report = example_report();
  report["traces"][0]["complete"] = false;
  report["traces"][0]["dropped"] = 1234;
  report["losses"] = {{{"name", "dropped_copies"},
                       {"count", 1234},
                       {"severity", "error"},
                       {"remedy", "Raise --ring-size."}}};
  const std::string text = summary_text(report);
  CHECK(text.find("INCOMPLETE: 64,213 events, 1,234 dropped") < text.find("peak"));
  CHECK(has(text, "dropped_copies. Raise --ring-size."));
}

TEST_CASE("a killed process has no leaks but what was live", "[unit]") {
  Json report = example_report();
  report["traces"][0]["end"] = "killed";
  report["leaks"]["state"] = "not_applicable";
  for (Json& row : report["leaks"]["exit"]) row["class"] = "live_at_kill";
  const std::string text = summary_text(report);
  CHECK(has(text, "end: killed"));
  CHECK(has(text, "not checked, because not every process ended by exit; live then: 68.1 GiB"));
}

TEST_CASE("a pool that hides its use leads to the setting that opens it", "[unit]") {
  Json report = example_report();
  report["usage"][0]["opaque_pool"] = {{"name", "XLA"},
                                       {"setting", "XLA_PYTHON_CLIENT_PREALLOCATE=false"}};
  const std::string text = summary_text(report);
  CHECK(has(text, "XLA holds 68.1 GiB whose use is not visible"));
  CHECK(has(text, "Next: record again with XLA_PYTHON_CLIENT_PREALLOCATE=false"));
}

TEST_CASE("parts are not summed to a driver's number that is not known", "[unit]") {
  Json report = example_report();
  for (Json& row : report["composition"]) {
    row["source"] = "none";
    for (const char* key : {"context_and_modules", "other_processes", "unattributed"}) {
      row[key] = nullptr;
    }
  }
  CHECK(has(summary_text(report), "the driver's own number is not known"));
}

TEST_CASE("a report of a process that used no memory says so", "[unit]") {
  Json report = example_report();
  for (const char* key : {"devices", "usage", "peak", "composition", "fragmentation", "oom"}) {
    report[key] = Json::array();
  }
  report["leaks"]["exit"] = Json::array();
  report["transfers"]["by_kind"] = Json::array();
  const std::string text = summary_text(report);
  CHECK(has(text, "No GPU memory was allocated."));
  CHECK(has(text, "Leaks at exit: no memory lost."));
  CHECK(has(text, "Copies: none."));
  CHECK(has(text, "Out of memory: never."));
}

TEST_CASE("the verdict stands first, with at most four fixes and seven holders", "[unit]") {
  Json report = example_report();
  CHECK(summary_text(report).find("Verdict: 1 error, 3 warnings. Worst: 48.0 MiB leaked") == 0);
  Json finding = report["findings"][0];
  for (int i = 0; i < 20; ++i) {
    finding["fingerprint"] = std::to_string(i);
    finding["title"] = "fault " + std::to_string(i);
    report["findings"].push_back(finding);
  }
  const Json holders = report["peak"][0]["holders"];
  for (Json& peak : report["peak"]) {
    for (const Json& holder : holders) peak["holders"].push_back(holder);
  }
  const std::string text = summary_text(report);
  CHECK(has(text, "  4. "));
  CHECK_FALSE(has(text, "  5. "));
  CHECK(has(text, "and 20 more findings"));
  std::size_t shown = 0;
  for (std::size_t at = text.find(" %  "); at != std::string::npos;
       at = text.find(" %  ", at + 1)) {
    ++shown;
  }
  CHECK(shown <= 7);

  report["findings"] = Json::array();
  CHECK(summary_text(report).find("Verdict: nothing wrong was found.") == 0);
  report["traces"][0]["complete"] = false;
  CHECK(summary_text(report).find("Verdict: nothing wrong was found (the trace is INCOMPLETE).") ==
        0);
}

TEST_CASE("a driver's number of another moment is told apart from the parts", "[unit]") {
  Json report = example_report();
  for (Json& row : report["composition"]) {
    row["source"] = "cumemgetinfo";
    row["context_and_modules"] = nullptr;
    row["other_processes"] = nullptr;
    row["unattributed"] = -1000;
    row["driver_bytes"] = 268435456;
    row["outside_calls"] = 268435456;
  }
  std::string text = summary_text(report);
  CHECK(has(text, "driver's peak 68.3 GiB (cuMemGetInfo said 256.0 MiB 400.0 ms before):"));
  CHECK(has(text, "256.0 MiB contexts, modules and other processes"));
  CHECK_FALSE(has(text, " less by "));

  for (Json& row : report["composition"]) row["outside_calls"] = nullptr;
  text = summary_text(report);
  CHECK(has(text, "driver's peak 68.1 GiB by its calls (cuMemGetInfo said 256.0 MiB 400.0 ms"));
  CHECK_FALSE(has(text, "contexts, modules and other processes"));

  // A report from before these keys.
  for (Json& row : report["composition"]) {
    for (const char* key : {"outside_calls", "sample_time_ns", "driver_bytes"}) row.erase(key);
    row["unattributed"] = 268435456;
  }
  CHECK(has(summary_text(report), "driver's peak 68.3 GiB by cuMemGetInfo:"));
}

TEST_CASE("where memory ran out, the parts are those of that moment", "[unit]") {
  Json report = example_report();
  CHECK(has(summary_text(report), "in use on the device at the driver's peak"));
  report["oom"][0]["outcome"] = "raised";
  report["findings"] = Json::array();  // leaves room for who held what
  const std::string text = summary_text(report);
  CHECK(has(text, "in use on the device when memory ran out"));
  CHECK(has(text, "held then: 66.0 GiB pytorch; 48.0 MiB python_extension at"));
}

TEST_CASE("memory that ran out in pieces is one fault", "[unit]") {
  Json report = example_report();
  const std::string before = summary_text(report);
  Json pieces = report["findings"][1];
  REQUIRE(pieces["evidence"]["verdict"] == "fragmented");
  pieces["rule"] = "fragmentation";
  pieces["severity"] = "warning";
  pieces["fingerprint"] = "pieces";
  pieces["evidence"] = Json::object();
  report["findings"].push_back(pieces);
  CHECK(summary_text(report) == before);
  report["findings"][4]["device"] = "d7";
  CHECK(has(summary_text(report), "Verdict: 1 error, 4 warnings."));
}

TEST_CASE("what is no fault is counted as a hint", "[unit]") {
  Json report = example_report();
  Json hint = report["findings"][0];
  hint["severity"] = "info";
  report["findings"] = Json::array({hint});
  CHECK(summary_text(report).find("Verdict: nothing wrong was found; 1 hint.\n") == 0);
}

TEST_CASE("a handle that was never released stands beside memory of which none was lost",
          "[unit]") {
  Json report = example_report();
  report["leaks"]["exit"] = Json::array();
  report["findings"][0]["rule"] = "unreleased_handle";
  report["findings"][0]["evidence"] = {{"count", 2}};
  CHECK(has(summary_text(report), "Leaks at exit: no memory lost; 2 handles never released.\n"));
}

TEST_CASE("memory that was not freed is told by what became of it", "[unit]") {
  Json report = example_report();
  for (Json& row : report["leaks"]["exit"]) row["class"] = "context_destroyed";
  const std::string text = summary_text(report);
  CHECK(has(text, "Leaks at exit: no memory lost.\n"));
  CHECK(has(text, "  besides: 68.1 GiB never freed, taken by the end of its context\n"));
}

TEST_CASE("rules that saw the end of the run alone are named", "[unit]") {
  Json report = example_report();
  CHECK_FALSE(has(summary_text(report), "only sums are left"));
  report["coverage"]["partial_rules"] =
      Json::array({{{"process", "p1"},
                    {"from_ns", 12'300'000'000},
                    {"rules", {"growth", "ping_pong", "allocation_churn", "pinned_churn"}}}});
  CHECK(has(
      summary_text(report),
      "\n  Before 12.30 s only sums are left (--max-trace-bytes); not looked for there: growth, "
      "transfer (in part), churn.\n"));
}

TEST_CASE("words for how a number is known are explained where they are used", "[unit]") {
  Json report = example_report();
  CHECK(has(summary_text(report),
            "\n  (exact) counted or timed, (arithmetic) a sum or difference of counts\n"));
  report["findings"].erase(std::size_t{1});
  CHECK(has(summary_text(report), "\n  (exact) counted or timed\n"));
  for (Json& finding : report["findings"]) finding["fix"] = "Free it.";
  CHECK_FALSE(has(summary_text(report), "counted or timed"));
}

TEST_CASE("a fix may take six lines where there is room, three where there is none", "[unit]") {
  Json report = example_report();
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word" + std::to_string(i) + ' ';
  const Json finding = report["findings"][0];
  const auto text_with = [&](std::size_t findings) {
    report["findings"] = Json::array();
    for (std::size_t i = 0; i < findings; ++i) {
      report["findings"].push_back(finding);
      report["findings"].back()["title"] = "fault " + std::to_string(i);
      report["findings"].back()["fix"] = words;
    }
    return summary_text(report);
  };
  CHECK(has(text_with(1), " word59\n"));
  const std::string crowded = text_with(4);
  CHECK_FALSE(has(crowded, " word59\n"));
  CHECK(has(crowded, " ...\n"));
  CHECK(has(crowded, "Next: "));
}

TEST_CASE("a job lasts until its last process ends", "[unit]") {
  Json report = example_report();
  Json trace = report["traces"][0];
  Json process = report["processes"][0];
  process["id"] = "p2";
  process["start_unix_ns"] = process["start_unix_ns"].get<std::uint64_t>() + 10'000'000'000;
  trace["process"] = "p2";
  report["traces"].push_back(trace);
  report["processes"].push_back(process);
  CHECK(has(summary_text(report), "2 processes, 106.40 s"));
}

TEST_CASE("the callers of a fault stand below it unless the place is all there is", "[unit]") {
  Json report = example_report();
  const std::string text = summary_text(report);
  CHECK(has(text, "\n     in fastops::Workspace::reserve (workspace.hpp:31) < "));
  for (Json& stack : report["stacks"]) {
    stack["frames"] = Json::array({stack["frames"].back()});
  }
  CHECK_FALSE(has(summary_text(report), "\n     in "));
}

TEST_CASE("a device without memory of the job says so", "[unit]") {
  Json report = example_report();
  Json device = report["devices"][0];
  device["id"] = "d1";
  report["devices"].push_back(device);
  CHECK(has(summary_text(report), "(d1), 79.6 GiB: nothing allocated\n"));
}

TEST_CASE("one fault of many ranks is one line", "[unit]") {
  Json report = example_report();
  report["processes"].push_back(report["processes"][0]);
  Json finding = report["findings"][0];
  finding["process"] = "p2";
  report["findings"].push_back(finding);
  CHECK(has(summary_text(report), "leaked at fastops.py:12 (fused_step) (2 times)"));
}

TEST_CASE("a report without its keys is refused, not guessed", "[unit]") {
  Json report = example_report();
  report.erase("leaks");
  CHECK(tests::contains(tests::error_of<analyzer::JsonError>([&] { return summary_text(report); }),
                        "\"leaks\" is missing"));
}

}  // namespace gpumemtrace::tools
