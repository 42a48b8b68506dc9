#include "tools/summary_text.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/catch.hpp"

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
    for (std::size_t i = 1; i < times; ++i) rows.insert(rows.end(), once.begin(), once.end());
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
  CHECK(has(text, "Leaks at exit: nothing lost."));
  CHECK(has(text, "Copies: none."));
  CHECK(has(text, "Out of memory: never."));
}

TEST_CASE("the verdict stands first, with at most four fixes and seven holders", "[unit]") {
  Json report = example_report();
  CHECK(summary_text(report).find("Verdict: 1 error, 3 warnings. Worst: 48.00 MiB leaked") == 0);
  Json finding = report["findings"][0];
  for (int i = 0; i < 20; ++i) {
    finding["fingerprint"] = std::to_string(i);
    finding["title"] = "fault " + std::to_string(i);
    report["findings"].push_back(finding);
  }
  const Json holders = report["peak"][0]["holders"];
  for (Json& peak : report["peak"]) {
    peak["holders"].insert(peak["holders"].end(), holders.begin(), holders.end());
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
  CHECK_THROWS_AS(summary_text(report), nlohmann::json::exception);
}

}  // namespace gpumemtrace::tools
