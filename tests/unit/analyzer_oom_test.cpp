// SPDX-License-Identifier: Apache-2.0
// Reports of allocations that failed for want of memory, and their outcomes.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/stack_records.hpp"

namespace gpumemtrace::analyzer_oom_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint16_t kOutOfMemory = 2;
constexpr std::int64_t kSigned = static_cast<std::int64_t>(kMiB);

void fail(TraceBuilder& trace, std::uint64_t bytes) {
  trace.allocate(0, bytes, MemoryKind::kDevice, {.result = kOutOfMemory});
}

}  // namespace

TEST_CASE("a failure after which a flush made room has recovered", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x200000000, 20 * kMiB);
  trace.block(0x200000000, 20 * kSigned, 20 * kMiB);
  trace.block(0x200000000, -20 * kSigned, 20 * kMiB);
  for (int i = 0; i < 3; ++i) {
    fail(trace, 64 * kMiB);
    fail(trace, 64 * kMiB);
    trace.free(i == 0 ? 0x200000000 : 0x600000000);
    trace.allocate(0x600000000, 64 * kMiB);
  }
  const Json report = report_of(trace);
  REQUIRE(report.at("oom").size() == 1);
  const Json row = report.at("oom")[0];
  CHECK(row.at("outcome") == "recovered");
  CHECK(row.at("level") == "driver");
  CHECK(row.at("count") == 3);
  CHECK(row.at("attempts") == 6);
  CHECK(row.at("requested_bytes") == 64 * kMiB);
  CHECK(row.at("flushed_bytes") == (20 + 64 + 64) * kMiB);
  CHECK(row.at("lost_ns").get<std::uint64_t>() > 0);
  CHECK(row.at("composition").at("at") == "oom");
  CHECK(row.at("holders")[0].at("owner") == "pytorch");
  CHECK(row.at("holders")[0].at("bytes") == 20 * kMiB);
}

TEST_CASE("a row shows the failure that began first, also if another thread's ended before it",
          "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x200000000, kMiB);
  fail(trace, 64 * kMiB);
  trace.allocate(0, 96 * kMiB, MemoryKind::kDevice, {.writer = 2, .result = kOutOfMemory});
  trace.allocate(0x600000000, 96 * kMiB, MemoryKind::kDevice, {.writer = 2});
  trace.allocate(0x700000000, 64 * kMiB);
  const Json report = report_of(trace);
  REQUIRE(report.at("oom").size() == 1);
  const Json row = report.at("oom")[0];
  CHECK(row.at("count") == 2);
  CHECK(row.at("requested_bytes") == 64 * kMiB);
  CHECK(row.at("composition").at("time_ns") == row.at("time_ns"));
}

TEST_CASE("attempts from different lines of an allocator are one shortage", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x200000000, kMiB);
  allocate_at(trace, 0, 64 * kMiB, 7, {.result = kOutOfMemory});
  allocate_at(trace, 0x600000000, 64 * kMiB, 8);
  const Json report = report_of(trace);
  REQUIRE(report.at("oom").size() == 1);
  CHECK(report.at("oom")[0].at("outcome") == "recovered");
}

TEST_CASE("a failure that the framework reports has been raised", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x200000000, 20 * kMiB);
  trace.block(0x200000000, 6 * kSigned, 20 * kMiB);
  trace.block(0x200600000, 8 * kSigned, 20 * kMiB);
  trace.block(0x200000000, -6 * kSigned, 20 * kMiB);
  fail(trace, 10 * kMiB);
  trace.framework_oom(10 * kMiB);
  const Json report = report_of(trace);
  const Json row = row_where(report.at("oom"), {{"level", "framework"}});
  CHECK(row.at("outcome") == "raised");
  CHECK(row.at("attempts") == 1);
  CHECK(row.at("requested_bytes") == 10 * kMiB);
  // 12 MiB are free, but in two pieces of 6 MiB.
  CHECK(row.at("free_bytes") == 12 * kMiB);
  CHECK(row.at("largest_free_bytes") == 6 * kMiB);
  CHECK(row.at("verdict") == "fragmented");
  CHECK(report.at("oom").size() == 1);
  CHECK(usage_of(report, "block").at("failed") == 1);
  CHECK(usage_of(report, "device").at("failed") == 1);
}

TEST_CASE("a program that goes on after it was told has survived", "[unit]") {
  for (const bool goes_on : {true, false}) {
    TraceBuilder trace;
    trace.allocate(0x200000000, 20 * kMiB);
    trace.block(0x200000000, 6 * kSigned, 20 * kMiB);
    fail(trace, 40 * kMiB);
    trace.framework_oom(40 * kMiB);
    if (goes_on) trace.block(0x200600000, 8 * kSigned, 20 * kMiB);
    const Json report = report_of(trace);
    CHECK(report.at("oom")[0].at("outcome") == "raised");
    CHECK(report.at("oom")[0].at("survived") == goes_on);
    const Json finding = row_where(report.at("findings"), {{"rule", "out_of_memory"}});
    CHECK(finding.at("severity") == (goes_on ? "warning" : "error"));
  }
}

TEST_CASE("a block on another device does not show that the program survived", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x200000000, 20 * kMiB);
  trace.block(0x200000000, 6 * kSigned, 20 * kMiB);
  trace.framework_oom(40 * kMiB);
  trace.context(2, 1);
  trace.allocate(0x900000000, 20 * kMiB, MemoryKind::kDevice, {.context = 2});
  trace.block(0x900000000, 8 * kSigned, 20 * kMiB, 1);
  const Json row = row_where(report_of(trace).at("oom"), {{"level", "framework"}});
  CHECK(row.at("survived") == false);
}

TEST_CASE("what a program made of a failed call is not known", "[unit]") {
  TraceBuilder trace;
  fail(trace, 900 * kMiB);
  trace.allocate(0x10000000, 1 * kMiB);
  const Json row = report_of(trace).at("oom")[0];
  CHECK(row.at("outcome") == "unknown");
  CHECK(row.at("verdict") == "unknown");
  CHECK(row.at("free_bytes").is_null());
}

TEST_CASE("other failures are no out-of-memory", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0, 1, MemoryKind::kDevice, {.result = 1});
  CHECK(report_of(trace).at("oom").empty());
  trace.allocate(0, 1, MemoryKind::kDevice, {.result = 2});
  CHECK(report_of(trace).at("oom").size() == 1);
}

}  // namespace gpumemtrace::analyzer_oom_test
