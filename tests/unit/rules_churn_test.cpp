// SPDX-License-Identifier: Apache-2.0
// Findings on memory that PyTorch returns to the driver and requests again.
#include <string>
#include <utility>
#include <vector>

#include "analyzer/rules/rules.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::rules_churn_test {

using namespace gpumemtrace::analyzer;

namespace {

rows::Site python_line(std::uint32_t line) {
  rows::Site site;
  site.function = "step";
  site.file = "/job/train.py";
  site.line = line;
  site.language = rows::Language::kPython;
  return site;
}

// Segments that PyTorch requests at one line, in forward or by a node of backward, and returns to
// the driver at another line.
rows::ChurningSite segments_of(std::uint64_t allocations, const rows::OptionalText& node,
                               std::uint32_t freed_at_line) {
  rows::ChurningSite row;
  row.process = "p1";
  row.device = "d0";
  row.origin = {"pytorch", python_line(6), "p1:1"};
  row.origin.site->node = node;
  row.allocations = allocations;
  row.allocations_after_warmup = allocations / 2;
  row.stretches_after_warmup = row.all_stretches_after_warmup = 48;
  row.time_in_calls_ns = allocations * 1'000'000;
  row.freed_at = rows::CodeLocation{python_line(freed_at_line), "p1:2"};
  return row;
}

Findings churn_of(std::vector<rows::ChurningSite> churning) {
  rows::Observations seen;
  seen.churning = std::move(churning);
  Findings found;
  find_churn({rows::Report(), seen, Thresholds()}, found);
  return found;
}

}  // namespace

TEST_CASE("a cache that one line gives back is one finding, at that line", "[unit]") {
  const Findings found =
      churn_of({segments_of(300, "ConvolutionBackward0", 7), segments_of(700, std::nullopt, 7)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].origin.site == python_line(7));
  CHECK(found[0].origin.stack == "p1:2");
  CHECK(found[0].title ==
        "train.py:7 (step) makes PyTorch ask the driver for memory again and again, 1,000 times");
  CHECK(found[0].detail.find("for train.py:6 (step), 1,000 times, 500 of them after the warm-up, "
                             "was freed again at train.py:7 (step). The calls took 1.00 s") !=
        std::string::npos);
}

TEST_CASE("two lines that give PyTorch's cache back are two findings", "[unit]") {
  CHECK(churn_of({segments_of(300, std::nullopt, 7), segments_of(700, std::nullopt, 9)}).size() ==
        2);
}

namespace {

rows::ChurningSite line_of_loop(std::uint32_t line, std::uint64_t allocations,
                                std::uint64_t bytes_each) {
  rows::ChurningSite row = segments_of(allocations, std::nullopt, 20);
  row.origin = {"program", python_line(line), "p1:1"};
  row.allocated_bytes = allocations * bytes_each;
  return row;
}

}  // namespace

TEST_CASE("lines that allocate equally often are one finding with all of them", "[unit]") {
  const Findings found = churn_of({line_of_loop(3, 400, 1 << 20), line_of_loop(4, 400, 2 << 20),
                                   line_of_loop(9, 150, 1 << 20)});
  REQUIRE(found.size() == 2);
  CHECK(found[0].origin.site == python_line(4));  // the line of most bytes
  CHECK(found[0].bytes == 400u * (3 << 20));
  CHECK(found[0].saves.time_ns == 800'000'000u);
  CHECK(
      found[0].title ==
      "train.py:4 (step) and 1 other line allocate device memory from the driver again and again, "
      "800 times");
  CHECK(found[0].detail.find("The lines: train.py:4 (step), 400 times, 2.0 MiB each; "
                             "train.py:3 (step), 400 times, 1.0 MiB each.") != std::string::npos);
  CHECK(found[1].origin.site == python_line(9));
}

}  // namespace gpumemtrace::rules_churn_test
