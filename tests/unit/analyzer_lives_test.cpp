// SPDX-License-Identifier: Apache-2.0
// Sizes of allocations, lifetimes, and the largest holders for the longest time.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/training_trace.hpp"

namespace gpumemtrace::analyzer_lives_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kFirst = 0x10000000;
constexpr std::uint64_t kSecond = 0x20000000;
constexpr std::uint64_t kThird = 0x30000000;

}  // namespace

TEST_CASE("sizes and lifetimes are counted by powers of two and sum to what was allocated",
          "[unit]") {
  TraceBuilder trace;
  trace.allocate(kFirst, kMiB, MemoryKind::kDevice, {.start = 1'000'100, .end = 1'000'200});
  trace.allocate(kSecond, 2 * kMiB - 1, MemoryKind::kDevice,
                 {.start = 1'000'300, .end = 1'000'400});
  trace.allocate(kThird, 5, MemoryKind::kDevice, {.start = 1'000'500, .end = 1'000'600});
  trace.free(kFirst, MemoryKind::kDevice, {.start = 1'001'224, .end = 1'001'230});
  trace.free(kSecond, MemoryKind::kDevice, {.start = 1'001'423, .end = 1'001'430});
  const Json report = report_of(trace);
  CHECK(report.at("sizes").size() == 2);
  const Json large = row_where(report.at("sizes"), {{"from_bytes", kMiB}});
  CHECK(large.at("to_bytes") == 2 * kMiB);
  CHECK(large.at("count") == 2);
  CHECK(large.at("bytes") == 3 * kMiB - 1);
  CHECK(row_where(report.at("sizes"), {{"from_bytes", 4}, {"to_bytes", 8}}).at("count") == 1);

  // Lifetimes of 1,024 ns and 1,023 ns, and of an allocation that was not freed.
  CHECK(report.at("lifetimes").size() == 3);
  CHECK(row_where(report.at("lifetimes"), {{"from_ns", 1024}, {"to_ns", 2048}}).at("bytes") ==
        kMiB);
  CHECK(row_where(report.at("lifetimes"), {{"from_ns", 512}, {"to_ns", 1024}}).at("bytes") ==
        2 * kMiB - 1);
  CHECK(row_where(report.at("lifetimes"), {{"from_ns", nullptr}, {"to_ns", nullptr}}).at("bytes") ==
        5);
}

TEST_CASE("memory whose size becomes known when it is mapped counts with that size", "[unit]") {
  TraceBuilder trace;
  trace.map(MappingOperation::kReserve, kFirst, 8 * kMiB);
  trace.allocate(0x77, 0, MemoryKind::kPhysical);
  trace.map(MappingOperation::kMap, kFirst, 4 * kMiB, 0x77);
  const Json report = report_of(trace);
  REQUIRE(report.at("sizes").size() == 1);
  CHECK(report.at("sizes")[0].at("from_bytes") == 4 * kMiB);
  CHECK(report.at("sizes")[0].at("bytes") == 4 * kMiB);
}

TEST_CASE("temporary is what its own thread frees before its next allocation", "[unit]") {
  TraceBuilder trace;
  const Call here{.caller = 0x1100};
  const Call there{.caller = 0x1200};
  trace.allocate(kFirst, kMiB, MemoryKind::kDevice, here);
  trace.free(kFirst);
  trace.allocate(kFirst, kMiB, MemoryKind::kDevice, here);
  trace.allocate(kSecond, 2 * kMiB, MemoryKind::kDevice, there);
  trace.free(kFirst);
  trace.free(kSecond, MemoryKind::kDevice, {.writer = 2});
  const Json report = report_of(trace);
  REQUIRE(report.at("temporary").size() == 1);
  const Json& row = report.at("temporary")[0];
  CHECK(row.at("count") == 1);
  CHECK(row.at("bytes") == kMiB);
}

TEST_CASE("the largest blocks tell when they came, when they went and what they were for",
          "[unit]") {
  TrainingTrace training;
  const std::uint64_t weight = training.take(kMiB, training.move);
  training.name(weight, kMiB, TensorRole::kParameter, "net.weight");
  const std::uint64_t seen = training.take(4 * kMiB, training.forward);
  training.give_back(seen, 4 * kMiB, 0);
  const std::uint64_t small = training.take(1024, training.forward);
  training.give_back(small, 1024, 0);
  const Json report = report_of(training.builder());
  const Json parameter = row_where(report.at("largest_blocks"), {{"name", "net.weight"}});
  CHECK(parameter.at("category") == "parameter");
  CHECK(parameter.at("category_confidence") == "exact");
  CHECK(parameter.at("end_ns").is_null());
  CHECK(parameter.at("at_peak") == true);
  const Json gone = row_where(report.at("largest_blocks"), {{"bytes", 4 * kMiB}});
  CHECK(gone.at("start_ns").get<std::uint64_t>() < gone.at("end_ns").get<std::uint64_t>());
  CHECK(gone.at("at_peak") == true);
  CHECK(gone.at("module") == "Net");
  const Json last = row_where(report.at("largest_blocks"), {{"bytes", 1024}});
  CHECK(last.at("at_peak") == false);
}

TEST_CASE(
    "of many blocks those with most bytes times time are kept, and all large ones at the peak",
    "[unit]") {
  TraceBuilder trace;
  constexpr std::uint64_t kBlocks = 5000;
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    trace.allocate(kFirst + i * kMiB, 1000 + i % 7);
    if (i % 10 != 0) trace.free(kFirst + i * kMiB);
  }
  trace.allocate(kThird * 64, 64 * kMiB);  // the peak, which lives for a short time
  trace.free(kThird * 64);
  trace.allocate(kThird * 80, 900);
  const Json report = report_of(trace);
  const Json& blocks = report.at("largest_blocks");
  CHECK(blocks.size() >= 512);
  CHECK(blocks.size() <= 1024);
  const auto weight_of = [](const Json& row) {
    return row.at("bytes").get<double>() *
           (row.at("end_ns").is_null() ? 1e9 : row.at("end_ns").get<double>());
  };
  std::size_t lived = 0;
  for (const Json& row : blocks) lived += row.at("end_ns").is_null() ? 1 : 0;
  CHECK(lived >= kBlocks / 10);  // each lasting block outweighs every short-lived one
  CHECK(weight_of(row_where(blocks, {{"bytes", 64 * kMiB}})) > 0);
}

}  // namespace gpumemtrace::analyzer_lives_test
