// SPDX-License-Identifier: Apache-2.0
// The changes between two jobs or two steps.
#include <fstream>

#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/report_json.hpp"
#include "tests/support/source_file.hpp"
#include "tools/base/failure.hpp"
#include "tools/diff/difference.hpp"

namespace gpumemtrace::tools::diff_test {
namespace {

namespace rows = analyzer::rows;

rows::Report example_report() {
  std::ifstream file(tests::source_file("docs/report.example.json"));
  return tests::report_of_json(Json::parse(file));
}

const DifferenceSection& section_of(const std::vector<DifferenceSection>& sections,
                                    const std::string& name) {
  for (const DifferenceSection& section : sections) {
    if (section.name == name) return section;
  }
  throw std::runtime_error("no section " + name);
}

std::string text_of(const DifferenceSection& section) {
  Difference difference;
  difference.sections = {section};
  return difference_text(difference);
}

rows::Step step(std::uint64_t index, std::uint64_t bytes) {
  rows::Step row;
  row.process = "p1";
  row.index = index;
  row.start_ns = index;
  row.peak_bytes = bytes;
  row.live_bytes_at_end = 100;
  row.transfers_bytes = 7;
  return row;
}

}  // namespace

TEST_CASE("a job differs from itself in nothing", "[unit]") {
  const auto sections = compare_jobs(example_report(), example_report());
  for (const DifferenceSection& section : sections) {
    for (const DifferenceRow& row : section.rows) CHECK_FALSE(row.changed());
  }
  CHECK(regressions_of(sections, {0, 0}).empty());
  Difference difference;
  difference.sections = sections;
  difference.has_limit = true;
  const std::string text = difference_text(difference);
  CHECK(text.find("PASSED") == 0);
  CHECK(tests::contains(text, "\nNo change: In use at the peak; Peak by allocator layer; "));
}

TEST_CASE("what grew is named by allocator layer, owner and call site, and lines may move",
          "[unit]") {
  const rows::Report base = example_report();
  rows::Report next = example_report();
  rows::Peak& peak = next.peak[0];
  peak.bytes += 1000;
  rows::Holder& holder = peak.holders[1];
  holder.bytes += 1000;
  holder.origin.site->line = 77;
  holder.origin.stack.reset();
  const auto sections = compare_jobs(base, next);
  CHECK(section_of(sections, "peak").rows[0].name == "driver");
  CHECK(section_of(sections, "owners").rows[0].name == "driver: python_extension");
  const DifferenceRow& place = section_of(sections, "places").rows[0];
  CHECK(place.new_bytes == place.base_bytes + 1000);
  CHECK(tests::contains(place.title, ":77 in "));
  CHECK_FALSE(tests::contains(place.name, ":77"));
  const auto regressions = regressions_of(sections, {0, 500});
  REQUIRE(regressions.size() == 1);
  CHECK(regressions[0].name == "peak, driver");
  CHECK(regressions_of(sections, {0.5, 0}).empty());
}

TEST_CASE("leaks, copies and categories are compared by their own bytes", "[unit]") {
  const rows::Report base = example_report();
  rows::Report next = example_report();
  for (rows::ExitLeak& row : next.leaks.exit) {
    row.bytes += row.leak_class == rows::LeakClass::kLost ? 100 : 1000;
  }
  next.transfers.by_kind[0].bytes += 300;
  next.peak[0].holders[1].bytes += 500;
  const auto sections = compare_jobs(base, next);
  const auto first_of = [&](const char* name) { return section_of(sections, name).rows[0]; };
  CHECK(first_of("leaks").base_bytes == 50'331'648);
  CHECK(first_of("leaks").new_bytes == 50'331'748);
  CHECK(section_of(sections, "leaks").rows.size() == 1);
  const std::uint64_t copied = base.transfers.by_kind[0].bytes;
  CHECK(first_of("transfers").base_bytes == copied);
  CHECK(first_of("transfers").new_bytes == copied + 300);
  CHECK(first_of("transfers").name == "host_to_device, pageable to device");
  CHECK(first_of("categories").new_bytes == first_of("categories").base_bytes + 500);
}

TEST_CASE("the text shows ten changes of a section and counts the others", "[unit]") {
  DifferenceSection section{"peak", "Peak by level", {}};
  for (std::uint64_t i = 0; i < 13; ++i) section.rows.push_back({std::to_string(i), 4096, 12288});
  section.rows.push_back({"the same", 1, 1});
  const std::string text = text_of(section);
  CHECK(tests::contains(text, "  and 3 more; --json has all\n"));
  CHECK_FALSE(tests::contains(text, "the same"));
  CHECK(tests::contains(text, "+8.0 KiB"));
  section.rows.erase(section.rows.begin(), section.rows.begin() + 3);
  CHECK_FALSE(tests::contains(text_of(section), "more; --json"));
}

TEST_CASE("a peak between two samples is a range, also in the headline", "[unit]") {
  rows::Report base = example_report();
  rows::CardPeak& job = base.card_peaks.at(1);
  job.bytes = job.low_bytes = job.high_bytes = std::uint64_t{4} << 30;
  rows::Report next = base;
  CHECK(difference_in_short(base, next) == "The job peaks at 4.0 GiB, as BASE.");
  next.card_peaks.at(1).high_bytes = std::uint64_t{6} << 30;
  CHECK(difference_in_short(base, next) ==
        "The job peaks at 4.0 GiB to 6.0 GiB, and BASE at 4.0 GiB.");
  CHECK(difference_in_short(next, next) == "The job peaks at 4.0 GiB to 6.0 GiB, as BASE.");
}

TEST_CASE("layers are listed apart, with what is summed in the title", "[unit]") {
  const rows::Report base = example_report();
  rows::Report next = example_report();
  next.peak[0].holders[1].bytes += 1000;  // memory allocated by calls of the driver
  next.peak[1].holders[0].bytes += 2000;  // memory that PyTorch allocated
  const std::string text = text_of(section_of(compare_jobs(base, next), "owners"));
  const std::size_t of_pytorch = text.find("At the peak by owner, PyTorch allocated\n");
  const std::size_t of_driver = text.find("At the peak by owner, asked of the CUDA driver\n");
  REQUIRE(of_pytorch == 0);
  REQUIRE(of_driver != std::string::npos);
  CHECK_FALSE(tests::contains(text, "driver: "));
  next.processes.push_back(next.processes[0]);
  const auto of_two = compare_jobs(base, next);
  CHECK(section_of(of_two, "owners").title == "At the peaks of all processes by owner");
  CHECK(section_of(of_two, "peak").title == "Highest peak of one process by allocator layer");
}

TEST_CASE("new findings and those that are gone are named once", "[unit]") {
  rows::Report base = example_report();
  base.findings.resize(1);
  base.findings[0].severity = analyzer::Severity::kWarning;
  rows::Report next = base;
  next.findings.resize(3, base.findings[0]);
  next.findings[0].fingerprint = "new";
  next.findings[0].title = "It grew";
  next.findings[1] = next.findings[0];  // the same finding on another rank
  next.findings[2].fingerprint = "hint";
  next.findings[2].severity = analyzer::Severity::kInfo;
  Difference difference;
  difference.new_findings = findings_only_in(next, base);
  difference.mended_findings = findings_only_in(base, next);
  REQUIRE(difference.new_findings.size() == 1);
  REQUIRE(difference.mended_findings.size() == 1);
  const std::string rule(name_of(base.findings[0].rule));
  const std::string text = difference_text(difference);
  CHECK(tests::contains(text, "New findings\n  " + rule + ": It grew\n"));
  CHECK(tests::contains(text, "Findings that are gone\n  " + rule + ": "));
  CHECK(Json::parse(difference_json(difference)).at("new_findings").at(0).at("fingerprint") ==
        "new");
}

TEST_CASE("what is lost may not become more, whatever else may", "[unit]") {
  const rows::Report base = example_report();
  rows::Report next = example_report();
  for (rows::ExitLeak& row : next.leaks.exit) {
    if (row.leak_class == rows::LeakClass::kLost) ++row.bytes;
  }
  const auto regressions = regressions_of(compare_jobs(base, next), {0.5, 1 << 30});
  REQUIRE(regressions.size() == 1);
  CHECK(regressions[0].name.starts_with("leaks, "));
}

TEST_CASE("code has one name, whichever source of symbols named it", "[unit]") {
  const rows::Report named = example_report();
  rows::Report unnamed = example_report();
  std::size_t renamed = 0;
  const auto forget = [&renamed](rows::Origin& origin) {
    if (!origin.site || !origin.stack) return;
    origin.site->function.reset();
    origin.site->file.reset();
    origin.site->line.reset();
    origin.site->module = "libops.so";
    origin.owner = "libops.so";
    ++renamed;
  };
  for (rows::Peak& peak : unnamed.peak) {
    for (rows::Holder& holder : peak.holders) forget(holder.origin);
  }
  for (rows::Cost& row : unnamed.costs) forget(row.origin);
  REQUIRE(renamed != 0);
  for (const auto& sections : {compare_jobs(named, unnamed), compare_jobs(unnamed, named)}) {
    for (const DifferenceRow& row : section_of(sections, "places").rows) {
      INFO(row.name);
      CHECK_FALSE(row.changed());
    }
  }
}

TEST_CASE("another program, GPU or version is said", "[unit]") {
  const rows::Report base = example_report();
  CHECK(changes_of_environment(base, base).empty());
  rows::Report next = example_report();
  next.devices[0].name = "Other GPU";
  next.processes[0].command = {"python3", "infer.py"};
  next.processes[0].cuda.driver_version = 12040;
  next.processes[0].world_size = 4;
  const auto changes = changes_of_environment(base, next);
  REQUIRE(changes.size() == 4);
  CHECK(changes[0] == "another program: train.py in BASE, infer.py in NEW");
  CHECK(changes[1] == "another CUDA version of the driver: 13.0 in BASE, 12.4 in NEW");
  CHECK(changes[2] == "another number of ranks: none in BASE, 4 in NEW");
  Difference difference;
  difference.changes = changes;
  CHECK(tests::contains(difference_text(difference), "Note: another program: "));
}

TEST_CASE("two steps of one run are compared", "[unit]") {
  rows::Report report = example_report();
  report.steps = {step(3, 1000), step(30, 5000)};
  const auto sections = compare_steps(report, 3, report, 30);
  REQUIRE(sections.size() == 1);
  CHECK(sections[0].rows[0].name == "peak_bytes");
  CHECK(sections[0].rows[0].new_bytes == 5000);
  CHECK(regressions_of(sections, {0, 100}).size() == 1);
  CHECK(tests::error_of<Failure>([&] { return compare_steps(report, 3, report, 31); }) ==
        "the run has the steps 3 to 30, not 31");
}

}  // namespace gpumemtrace::tools::diff_test
