// SPDX-License-Identifier: Apache-2.0
#include "tools/summary/summary_text.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "analyzer/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/report_json.hpp"
#include "tests/support/source_file.hpp"
#include "tools/base/failure.hpp"
#include "tools/report_view/report_scope.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools::summary_text_test {
namespace {

std::string read_file(const std::string& name) {
  std::ifstream file(tests::source_file(name));
  REQUIRE(file);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

std::string summary_text(const Json& report, std::size_t width = kDefaultWidth) {
  return tools::summary_text(tests::report_of_json(report), {.width = width});
}

std::string full_summary(const Json& report) {
  return tools::summary_text(tests::report_of_json(report), {.is_full = true});
}

Json example_report() { return Json::parse(read_file("docs/report.example.json")); }

// The report as versions before card_peaks[] wrote it.
Json older_report() {
  Json report = example_report();
  report.erase("card_peaks");
  return report;
}

// The report of a run without findings.
Json healthy_report() {
  Json report = example_report();
  report["findings"] = Json::array();
  report["leaks"]["exit"] = Json::array();
  report["fragmentation"] = Json::array();
  return report;
}

std::size_t line_count(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("no line of a name that is cut begins as a command of a build server", "[unit]") {
  std::string name = "library";
  for (int i = 0; i < 20; ++i) name += "::error::";
  for (std::size_t width = 20; width < 60; ++width) {
    for (const std::string& line : wrapped_parts("  ", {name}, ", ", width, 100)) {
      CHECK(!line.substr(line.find_first_not_of(' ')).starts_with("::"));
    }
  }
}

// To accept a wanted change: gpumemtrace summary docs/report.example.json > the golden file.
TEST_CASE("the example report is drawn as its golden text", "[unit]") {
  CHECK(tools::summary_text(tests::report_of_json(example_report()),
                            {.inputs = "docs/report.example.json"})
            .letters() == read_file("tests/tools/golden/summary_of_example.txt"));
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
  for (const std::size_t width : {40, 80, 200}) {
    const std::string text = summary_text(report, width);
    CHECK(line_count(text) <= kMostSummaryLines);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= width);
  }
  const std::string text = summary_text(report);
  CHECK(has(text, "16 processes"));
  CHECK(has(text, "Next  "));
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
  CHECK(text.find("the trace is INCOMPLETE") < text.find("PEAK"));
  CHECK(has(text, "INCOMPLETE: 64,213 events, 1,234 dropped"));
  CHECK(has(text, "dropped_copies. Raise --ring-size."));
}

TEST_CASE("a killed process has no leaks but what was live", "[unit]") {
  Json report = example_report();
  report["traces"][0]["end"] = "killed";
  report["leaks"]["state"] = "not_applicable";
  for (Json& row : report["leaks"]["exit"]) row["class"] = "live_at_kill";
  const std::string text = summary_text(report, 200);
  CHECK(has(text, "; the program was killed."));
  CHECK(has(text, "not checked, because not every process ended by exit; live then: 68.1 GiB"));
}

TEST_CASE("a pool that hides its use leads to the setting that opens it", "[unit]") {
  Json report = example_report();
  report["usage"][0]["opaque_pool"] = {{"name", "XLA"},
                                       {"setting", "XLA_PYTHON_CLIENT_PREALLOCATE=false"}};
  const std::string text = summary_text(report);
  CHECK(has(text, "XLA holds 68.1 GiB whose use is not visible"));
  CHECK(has(text, "Next      record again with XLA_PYTHON_CLIENT_PREALLOCATE=false"));
}

TEST_CASE("parts are not summed to a driver's number that is not known", "[unit]") {
  Json report = older_report();
  for (Json& row : report["composition"]) {
    row["source"] = "none";
    for (const char* key : {"context_and_modules", "other_processes", "unattributed"}) {
      row[key] = nullptr;
    }
  }
  CHECK(has(summary_text(report), "68.1 GiB by the calls of the process alone"));
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
  CHECK(has(text, "Leaks     no memory lost"));
  CHECK(has(text, "Copies    none"));
  CHECK_FALSE(has(text, "No room"));
}

TEST_CASE("the verdict stands first, then three facts, then at most four fixes", "[unit]") {
  Json report = example_report();
  std::string text = summary_text(report);
  CHECK(text.find("Verdict: 1 error, 2 warnings; the program exited.\n") == 0);
  CHECK(text.find("\n  PEAK ") < text.find("\n  LEAKED "));
  CHECK(text.find("\n  LEAKED ") < text.find("\n  UNUSABLE "));
  CHECK(text.find("\n  UNUSABLE ") < text.find("\nWhat to do\n"));
  Json finding = report["findings"][0];
  for (int i = 0; i < 20; ++i) {
    finding["fingerprint"] = std::to_string(i);
    finding["title"] = "fault " + std::to_string(i);
    report["findings"].push_back(finding);
  }
  text = summary_text(report);
  CHECK_FALSE(has(text, "  5. "));
  CHECK(has(text, " more findings\n"));

  report["findings"] = Json::array();
  CHECK(summary_text(report).find("Verdict: nothing wrong was found; the program exited.\n") == 0);
  report["traces"][0]["complete"] = false;
  CHECK(has(summary_text(report, 120), "the program exited; the trace is INCOMPLETE.\n"));
}

TEST_CASE("a run without a fault has its three facts as well", "[unit]") {
  const std::string text = summary_text(healthy_report());
  CHECK(has(text, "\n  PEAK      68.6 GiB of 79.6 GiB  this job on d0 (NVIDIA H100"));
  CHECK(has(text, "\n  CARD      74.6 GiB              with other processes 6.0 GiB\n"));
  CHECK(has(text, "\n  LARGEST   48.0 GiB              activation, 70 % of the peak\n"));
  CHECK(has(text, "\n  HEADROOM  5.1 GiB               never used\n"));
}

TEST_CASE("the largest part of a job's peak can be of no process that is known", "[unit]") {
  Json report = healthy_report();
  Json second = report["processes"][0];
  second["id"] = "p2";
  report["processes"].push_back(second);
  for (Json& row : report["card_peaks"]) {
    row["parts"] = Json::array({{{"process", nullptr},
                                 {"what", "not_separable"},
                                 {"owner", nullptr},
                                 {"bytes", 40ull << 30}}});
  }
  CHECK(has(
      summary_text(report, 120),
      "\n  LARGEST   40.0 GiB              contexts and other processes, not separable, 58 % "));
}

TEST_CASE("the largest part of a peak can be managed memory, which has a line", "[unit]") {
  Json report = healthy_report();
  Json managed = report["peak"][1];
  managed["level"] = "managed";
  report["peak"].push_back(managed);
  for (Json& row : report["card_peaks"]) {
    row["parts"] = Json::array({{{"process", managed["process"]},
                                 {"what", "managed"},
                                 {"owner", nullptr},
                                 {"bytes", 60ull << 30}}});
  }
  CHECK(has(summary_text(report), "LARGEST   48.0 GiB              model.py:41 ("));
}

TEST_CASE("a peak that is not exact is a range, and one that is the card's stands alone",
          "[unit]") {
  Json report = healthy_report();
  for (Json& row : report["card_peaks"]) row["low_bytes"] = 60ull << 30;
  CHECK(
      has(summary_text(report, 120), "PEAK      60.0 GiB to 68.6 GiB of 79.6 GiB  this job on d0"));
  CHECK(has(summary_text(report, 120), "CARD      60.0 GiB to 74.6 GiB  "));
  CHECK(has(summary_text(report, 120), "HEADROOM  5.1 GiB to 19.6 GiB  "));
  CHECK(has(summary_text(report), "\nCard d0 at its peak: 60.0 GiB to 74.6 GiB\n"));
  report["card_peaks"][0] = report["card_peaks"][1];
  report["card_peaks"][0]["of"] = "card";
  CHECK_FALSE(has(summary_text(report), "  CARD "));
}

TEST_CASE("the largest is chosen over everything in the peak", "[unit]") {
  Json report = healthy_report();
  Json& job = report["card_peaks"][1];
  REQUIRE(job["of"] == "job");
  const auto set_part = [&](const char* what, const char* owner, std::uint64_t bytes) {
    for (Json& part : job["parts"]) {
      const bool is_it = part["what"] == what && (owner == nullptr || part["owner"] == owner);
      part["bytes"] = is_it ? bytes : 1u << 20;
    }
    job["bytes"] = job["low_bytes"] = job["high_bytes"] = bytes + (4u << 20);
  };
  set_part("driver", nullptr, 70ull << 30);
  CHECK(has(summary_text(report, 200), "CUDA contexts, code, 100 % of the peak; largest line "));
  set_part("allocated", "cublas", 70ull << 30);
  CHECK(has(summary_text(report, 120), "cublas, 100 % of the peak"));
  // The line that held most of the peak's largest part is named, with no more bytes than it held.
  set_part("allocated", "python_extension", 40u << 20);
  CHECK(has(summary_text(report, 120), "fastops.py:12 (fused_step), 91 % of the peak"));
}

TEST_CASE("a peak of an older report says what it is of", "[unit]") {
  Json report = healthy_report();
  report.erase("card_peaks");
  const std::string text = summary_text(report);
  CHECK(has(text, "\n  PEAK      74.6 GiB of 79.6 GiB  with other processes, d0, NVIDIA H100"));
  CHECK(
      has(text, "\n  LARGEST   48.0 GiB              activation, 75 % of what PyTorch allocated"));
  CHECK(has(text, "\n  HEADROOM  5.1 GiB "));
}

TEST_CASE("a request that failed for good and memory that grows are facts", "[unit]") {
  Json report = example_report();
  report["oom"][0]["outcome"] = "raised";
  CHECK(has(summary_text(report), "\n  FAILED    8.0 GiB "));
  Json growth = report["findings"][0];
  growth["rule"] = "growth";
  growth["severity"] = "warning";
  growth["fingerprint"] = "growth";
  growth["evidence"] = {{"bytes_per_step", 31247564.0}, {"forecast_ns", 420'000'000'000u}};
  growth["site"]["line"] = 13;
  report["findings"].push_back(growth);
  CHECK(has(summary_text(report, 120),
            "GROWTH    29.8 MiB a step       fastops.py:13 (fused_step): "
            "full 7.0 min"));
}

TEST_CASE("a driver's number of another moment is told apart from the parts", "[unit]") {
  Json report = older_report();
  for (Json& row : report["composition"]) {
    row["source"] = "cumemgetinfo";
    row["context_and_modules"] = nullptr;
    row["other_processes"] = nullptr;
    row["unattributed"] = -1000;
    row["driver_bytes"] = 268435456;
    row["outside_calls"] = 268435456;
  }
  std::string text = summary_text(report);
  CHECK(has(text, "at its peak: 68.3 GiB (cuMemGetInfo 256.0 MiB, 400.0 ms before)\n"));
  CHECK(has(text, "256.0 MiB contexts, modules and other processes"));

  for (Json& row : report["composition"]) row["outside_calls"] = nullptr;
  text = summary_text(report, 120);
  CHECK(has(text, "68.1 GiB by the process's calls (cuMemGetInfo 256.0 MiB, 400.0 ms before)"));
  CHECK_FALSE(has(text, "contexts, modules and other processes"));

  // A report of a version whose composition[] lacks outside_calls and the keys that came with it.
  for (Json& row : report["composition"]) {
    for (const char* key : {"outside_calls", "sample_time_ns", "driver_bytes"}) row.erase(key);
    row["unattributed"] = 268435456;
  }
  CHECK(has(summary_text(report), "at its peak: 68.3 GiB (by cuMemGetInfo)\n"));
}

TEST_CASE("where memory ran out, the parts are those of that moment", "[unit]") {
  Json report = example_report();
  CHECK(has(summary_text(report), "Card d0 at its peak: "));
  report["oom"][0]["outcome"] = "raised";
  const std::string text = summary_text(report);
  CHECK(has(text, "Card d0 when memory ran out: "));
  CHECK(has(text, "No room   1 request failed\n"));
}

TEST_CASE("a leak that grew is one fault, growth elsewhere another", "[unit]") {
  Json report = example_report();
  Json growth = report["findings"][0];
  REQUIRE(growth["rule"] == "leak");
  growth["rule"] = "growth";
  growth["severity"] = "warning";
  growth["fingerprint"] = "0";
  growth["same_cause"] = report["findings"][0]["fingerprint"];
  growth["evidence"] = {{"bytes_per_step", 31247564.0}};
  report["findings"].push_back(growth);
  CHECK(has(summary_text(report), "Verdict: 1 error, 2 warnings;"));
  CHECK(has(summary_text(report), "GROWTH    29.8 MiB a step"));
  report["findings"].back().erase("same_cause");
  CHECK(has(summary_text(report), "Verdict: 1 error, 3 warnings;"));
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
  CHECK(has(summary_text(report), "Verdict: 1 error, 3 warnings;"));
}

TEST_CASE("what is no fault is counted as a hint", "[unit]") {
  Json report = example_report();
  Json hint = report["findings"][0];
  hint["severity"] = "info";
  report["findings"] = Json::array({hint});
  CHECK(summary_text(report).find(
            "Verdict: nothing wrong was found, 1 hint; the program exited.\n") == 0);
}

TEST_CASE("a handle that was never released stands beside memory of which none was lost",
          "[unit]") {
  Json report = example_report();
  report["leaks"]["exit"] = Json::array();
  report["findings"][0]["rule"] = "unreleased_handle";
  report["findings"][0]["evidence"] = {{"count", std::uint64_t{2}}};
  CHECK(has(summary_text(report), "Leaks     no memory lost; 2 handles never released\n"));
}

TEST_CASE("memory that was not freed is told by what became of it", "[unit]") {
  Json report = example_report();
  for (Json& row : report["leaks"]["exit"]) row["class"] = "context_destroyed";
  const std::string text = summary_text(report, 120);
  CHECK(has(text,
            "no memory lost; besides: 68.1 GiB never freed, taken by the end of its context\n"));
}

TEST_CASE("memory that stayed open when its exporter freed it or had ended is told", "[unit]") {
  Json report = example_report();
  report["processes"][0]["rank"] = 0;
  report["processes"].push_back(report["processes"][0]);
  report["processes"][1]["id"] = "p2";
  report["processes"][1]["rank"] = 1;
  const auto shared = [&] {
    return tools::summary_text(tests::report_of_json(report), {.width = 160, .is_full = true});
  };
  const Json line = report["findings"][0]["site"];
  Json row = {{"process", "p2"},
              {"device", "d0"},
              {"exporter", "p1"},
              {"exporter_reason", nullptr},
              {"exporter_device", "d0"},
              {"count", 2},
              {"bytes", 12 << 20},
              {"live_count_at_end", 0},
              {"live_bytes_at_end", 0},
              {"freed_while_open_bytes", 4 << 20},
              {"ended_while_open_bytes", 0},
              {"kept_after_ns", 500'000'000},
              {"owner", "program"},
              {"site", line},
              {"stack", nullptr},
              {"allocated_at", nullptr},
              {"freed_at", {{"site", line}, {"stack", nullptr}}}};
  report["shared_memory"].push_back(row);
  CHECK(has(shared(),
            "Shared    rank 1 had 4.0 MiB open for 500.0 ms after rank 0 freed it at fastops.py:12 "
            "(fused_step); opened at fastops.py:12 (fused_step)\n"));

  // It is no fault that rank 0 ends first: the processes of a job end one after the other.
  row["freed_while_open_bytes"] = 0;
  row["ended_while_open_bytes"] = 8 << 20;
  report["shared_memory"] = Json::array({row});
  CHECK_FALSE(has(shared(), "Shared"));
  report["shared_memory"][0]["kept_after_ns"] = 90'000'000'000;
  CHECK(has(shared(), "had 8.0 MiB open for 90.00 s after rank 0 ended;"));

  const Json kept = report["shared_memory"][0];
  for (int i = 0; i < 60; ++i) report["shared_memory"].push_back(kept);
  CHECK(has(summary_text(report, 160), " more shared memory rows\n"));
}

TEST_CASE("rules that saw the end of the run alone are named", "[unit]") {
  Json report = example_report();
  CHECK_FALSE(has(summary_text(report), "only sums are left"));
  report["coverage"]["partial_rules"] =
      Json::array({{{"process", "p1"},
                    {"from_ns", 12'300'000'000},
                    {"rules", {"growth", "ping_pong", "allocation_churn", "pinned_churn"}}}});
  CHECK(has(summary_text(report, 160),
            "Before 12.30 s only sums are left (--max-trace-bytes); not looked for there: growth, "
            "transfer (in part), churn.\n"));
}

TEST_CASE("what does not fit is left out whole, and is there in full", "[unit]") {
  Json report = example_report();
  std::string words;
  for (int i = 0; i < 50; ++i) words += "word" + std::to_string(i) + ' ';
  const Json finding = report["findings"][0];
  const std::string long_name = "a_file_with_a_name_that_is_longer_than_a_narrow_terminal.py";
  const auto count = [](const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  for (const std::size_t findings : {1, 4, 12}) {
    report["findings"] = Json::array();
    for (std::size_t i = 0; i < findings; ++i) {
      report["findings"].push_back(finding);
      report["findings"].back()["title"] = "fault " + std::to_string(i) + " of " + long_name;
      report["findings"].back()["fix"] = words;
    }
    for (const std::size_t width : {40, 80, 200}) {
      CAPTURE(findings, width);
      const std::string text = summary_text(report, width);
      CHECK(line_count(text) <= kMostSummaryLines);
      CHECK_FALSE(has(text, "..."));
      CHECK(count(text, "word0 ") == count(text, "word49"));
      CHECK(has(text, "\nNext "));
    }
    CHECK(count(full_summary(report), "word49") == findings);
    CHECK_FALSE(has(full_summary(report), "--full"));
  }
  CHECK(has(summary_text(report), "\n          --full shows "));
  // A name for which a line has no room goes on in the next line.
  std::string joined = summary_text(report, 40);
  for (std::size_t at = joined.find("\n"); at != std::string::npos; at = joined.find("\n", at)) {
    joined.erase(at, joined.find_first_not_of("\n ", at) - at);
  }
  CHECK(has(joined, long_name));
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
  CHECK(has(summary_text(report), "106.40 s, 2 processes"));
  report["processes"][0]["start_unix_ns"] = nullptr;
  CHECK(has(summary_text(report), "96.40 s, 2 processes"));
}

TEST_CASE("the callers of a fault stand below it unless the place is all there is", "[unit]") {
  Json report = example_report();
  report["findings"] = Json::array({report["findings"][0]});
  const std::string text = summary_text(report, 120);
  CHECK(has(text, "\n     in fastops::Workspace::reserve (workspace.hpp:31) < "));
  for (Json& stack : report["stacks"]) {
    stack["frames"] = Json::array({stack["frames"].back()});
  }
  CHECK_FALSE(has(summary_text(report, 120), "\n     in "));
}

TEST_CASE("a fault names its rank, and one of many ranks is one line", "[unit]") {
  Json report = example_report();
  report["processes"][0]["rank"] = 0;
  report["processes"].push_back(report["processes"][0]);
  report["processes"][1]["id"] = "p2";
  report["processes"][1]["rank"] = 1;
  CHECK(has(summary_text(report, 120), "leaked at fastops.py:12 (fused_step) (rank 0)\n"));
  Json finding = report["findings"][0];
  finding["process"] = "p2";
  report["findings"].push_back(finding);
  CHECK(has(summary_text(report, 120), "leaked at fastops.py:12 (fused_step) (2 of 2 ranks)\n"));
}

TEST_CASE("a fault that names its rank after a longer number does not name it again", "[unit]") {
  Json report = example_report();
  report["processes"][0]["rank"] = 1;
  report["processes"].push_back(report["processes"][0]);
  report["processes"][1]["id"] = "p2";
  report["processes"][1]["rank"] = 10;
  report["findings"] = Json::array({report["findings"][0]});
  report["findings"][0]["title"] = "rank 10 waited for rank 1";
  CHECK(has(summary_text(report, 120), "rank 10 waited for rank 1\n"));
  report["findings"][0]["title"] = "rank 10 waited";
  CHECK(has(summary_text(report, 120), "rank 10 waited (rank 1)\n"));
}

TEST_CASE("ranks that are alike share a row, and one that differs has its own", "[unit]") {
  Json report = example_report();
  Json process = report["processes"][0];
  Json rank = report["ranks"][0];
  report["processes"] = Json::array();
  report["ranks"] = Json::array();
  for (const int number : {2, 0, 1, 3}) {
    process["id"] = rank["process"] = "p" + std::to_string(number);
    process["rank"] = rank["rank"] = number;
    rank["peak_bytes"] = number == 2 ? 72ull << 30 : 60ull << 30;
    rank["peer_group"] = 0;
    rank["steps_until_full"] = number == 2 ? Json(1200.4) : Json();
    report["processes"].push_back(process);
    report["ranks"].push_back(rank);
  }
  CHECK(has(summary_text(report, 120),
            "Ranks     PyTorch allocated at their peaks: 60.0 GiB to 72.0 GiB in ranks 0-3\n"));

  Json differs = report["findings"][0];
  differs["rule"] = "rank_imbalance";
  differs["process"] = "p2";
  differs["bytes"] = 12ull << 30;
  differs["evidence"] = {{"peak_bytes", 72ull << 30},
                         {"median_of_others_bytes", 60ull << 30},
                         {"held_at", {{"site", differs["site"]}, {"stack", nullptr}}},
                         {"module", "GPT2Model > GPT2Block"}};
  Json growth = differs;
  growth["rule"] = "growth";
  growth["severity"] = "warning";
  growth["evidence"] = {{"bytes_per_step", 31247564.0}, {"by_repetition", true}};
  Json ended = differs;
  ended["rule"] = "rank_ended_early";
  ended["process"] = "p3";
  ended["evidence"] = {{"end_ns", 2'000'000'000}, {"median_end_ns", 42'000'000'000}};
  report["findings"] = {differs, growth, ended};
  CHECK(has(summary_text(report, 80),
            "Ranks     PyTorch allocated at their peaks\n"
            "    72.0 GiB  rank 2: 12.0 GiB more than its group at fastops.py:12 (fused_step)\n"
            "              in GPT2Model > GPT2Block, grows 29.8 MiB a repetition at\n"
            "              fastops.py:12 (fused_step), full in 1,200 repetitions\n"
            "    60.0 GiB  rank 3: ended 40.00 s before the others\n"
            "    60.0 GiB  ranks 0, 1\n"));
}

TEST_CASE("a note of several processes is told once", "[unit]") {
  Json report = example_report();
  report["traces"].push_back(report["traces"][0]);
  for (Json& trace : report["traces"]) trace["notes"] = {"Its end is not known."};
  CHECK(has(full_summary(report), "          Its end is not known. (2 processes)\n"));
}

TEST_CASE("a summary of one rank leaves the others out", "[unit]") {
  Json json = example_report();
  json["processes"][0]["rank"] = 3;
  analyzer::rows::Report report = tests::report_of_json(json);
  narrow(report, {3, ""});
  CHECK(tools::summary_text(report).letters() == summary_text(json));
  CHECK_THROWS_AS(narrow(report, {4, ""}), Failure);
  narrow(report, {{}, "d0"});
  CHECK_THROWS_AS(narrow(report, {{}, "d7"}), Failure);
}

TEST_CASE("what has no category that says anything is told by its line", "[unit]") {
  for (const char* nothing : {"other", "unknown"}) {
    Json report = healthy_report();
    Json& peak = report["peak"][1];
    peak["categories"][nothing] = peak["categories"]["activation"];
    peak["categories"]["activation"] = 0;
    peak["holders"][0]["category"] = nothing == std::string("unknown") ? Json() : Json(nothing);
    CHECK(has(summary_text(report), "LARGEST   48.0 GiB              model.py:41 ("));
  }
}

TEST_CASE("each line with a twentieth of the framework's peak is named", "[unit]") {
  Json report = healthy_report();
  Json& holders = report["peak"][1]["holders"];
  const Json large = holders[0];
  for (std::uint64_t line = 1; line <= 4; ++line) {
    holders.push_back(large);
    holders.back()["bytes"] = 4ull << 30;
    holders.back()["site"]["line"] = 1000 + line;
    holders.back()["site"]["function"] = "a_function_with_a_name_that_fills_half_a_line";
  }
  const std::string text = summary_text(report);
  for (const char* line : {"model.py:1001", "model.py:1002", "model.py:1003"}) {
    CHECK(has(text.substr(text.find("  by line:")), line));
  }
}

TEST_CASE("layers stand for the lines of a category", "[unit]") {
  Json report = example_report();
  const auto module = [&](const Json& path, std::uint64_t bytes) {
    Json categories = report["peak"][1]["categories"];
    for (const auto& [name, value] : report["peak"][1]["categories"].items()) categories[name] = 0;
    categories["activation"] = bytes;
    return Json{{"process", "p1"}, {"device", "d0"}, {"at", "peak"}, {"path", path},
                {"name", nullptr}, {"bytes", bytes}, {"count", 1},   {"categories", categories}};
  };
  report["modules"] = {module("GPT > Block > Mlp", 40ull << 30), module(nullptr, 8ull << 30)};
  CHECK(has(summary_text(report), " activation      Block > Mlp 40.0 GiB, no layer 8.0 GiB\n"));
}

TEST_CASE("the largest tensors that were named are told with their gradients and states",
          "[unit]") {
  Json report = example_report();
  const auto tensor = [](const Json& name, const Json& role, std::uint64_t bytes) {
    return Json{{"process", "p1"},
                {"device", "d0"},
                {"name", name},
                {"role", role},
                {"state", nullptr},
                {"layer", nullptr},
                {"path", nullptr},
                {"bytes", bytes},
                {"requested_bytes", bytes},
                {"count", 1},
                {"other_names", Json::array()},
                {"names", 1}};
  };
  // Without findings and out-of-memory errors, the summary has room for tensors.
  for (const char* const key : {"findings", "oom"}) report[key] = Json::array();
  report["tensors"] = Json::array();
  CHECK_FALSE(has(summary_text(report), "by name"));
  report["tensors"] = {
      tensor("wte.weight", "parameter", 4ull << 30), tensor("wte.weight", "gradient", 4ull << 30),
      tensor("head.weight", "parameter", 6ull << 30), tensor(nullptr, "parameter", 9ull << 30)};
  CHECK(has(summary_text(report),
            "  by name, with gradient and state: wte.weight 8.0 GiB, head.weight 6.0 GiB\n"));
}

TEST_CASE("a report without its keys is refused, not guessed", "[unit]") {
  Json report = example_report();
  report.erase("leaks");
  CHECK(tests::contains(tests::error_of<analyzer::InputError>([&] { return summary_text(report); }),
                        "leaks"));
}

TEST_CASE("the summary says how far the times of several hosts agree", "[unit]") {
  Json report = healthy_report();
  Json second = report["processes"][0];
  second["id"] = "p2";
  second["host"] = "node02";
  report["processes"].push_back(second);
  CHECK_FALSE(has(summary_text(report), "Times of"));
  Json& process = report["processes"][1];
  process["boot_id"] = "another";
  process["time_of_day_error"]["max_ns"] = 3'750'000;
  CHECK(has(summary_text(report), "Times of 2 hosts agree to within 5.0 ms"));
  process["time_of_day_error"] = {
      {"estimated_ns", nullptr}, {"max_ns", nullptr}, {"reason", "Nothing synchronized it."}};
  CHECK(has(summary_text(report, 200),
            "the clocks of 2 hosts differ is not known. node02: Nothing synchronized it."));
}

}  // namespace gpumemtrace::tools::summary_text_test
