// SPDX-License-Identifier: Apache-2.0
// The order of records of several threads: when calls take effect, and what the reuse of an address
// shows about their order.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer_order_test {

using namespace gpumemtrace::tests;
using gpumemtrace::trace::MemoryKind;

namespace {

constexpr std::uint64_t kT = TraceBuilder::kFirstTick + 1'000'000;

}  // namespace

TEST_CASE("a free takes effect when it begins, an allocation when it returns", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 4 * kMiB, MemoryKind::kDevice, {.start = kT, .end = kT + 10});
  // Thread 1 frees from +100 to +200; thread 2 gets the same address from +50 to +150.
  trace.free(0x10000000, MemoryKind::kDevice, {.start = kT + 100, .end = kT + 200});
  trace.allocate(0x10000000, 4 * kMiB, MemoryKind::kDevice,
                 {.writer = 2, .start = kT + 50, .end = kT + 150});
  const Json report = report_of(trace);
  CHECK(usage_of(report, "device").at("peak_bytes") == 4 * kMiB);
  CHECK(usage_of(report, "device").at("live_count_at_end") == 1);
  CHECK(loss_of(report, "order_repaired") == 0);
}

TEST_CASE("at the same tick a free comes before the allocation of its address", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 4 * kMiB, MemoryKind::kDevice,
                 {.writer = 2, .start = kT, .end = kT + 10});
  trace.allocate(0x10000000, 4 * kMiB, MemoryKind::kDevice,
                 {.writer = 1, .start = kT + 50, .end = kT + 100});
  trace.free(0x10000000, MemoryKind::kDevice, {.writer = 2, .start = kT + 100, .end = kT + 110});
  const Json report = report_of(trace);
  CHECK(usage_of(report, "device").at("peak_bytes") == 4 * kMiB);
  CHECK(usage_of(report, "device").at("live_count_at_end") == 1);
  CHECK(loss_of(report, "live_address_allocated") == 0);
}

TEST_CASE("a free that stands a little late is put before the allocation it made room for",
          "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 4 * kMiB, MemoryKind::kDevice,
                 {.writer = 2, .start = kT, .end = kT + 10});
  trace.allocate(0x10000000, 6 * kMiB, MemoryKind::kDevice,
                 {.writer = 1, .start = kT + 50, .end = kT + 100});
  trace.allocate(0x70000000, 1 * kMiB, MemoryKind::kDevice,
                 {.writer = 2, .start = kT + 101, .end = kT + 102});
  trace.free(0x10000000, MemoryKind::kDevice, {.writer = 2, .start = kT + 120, .end = kT + 130});
  const Json report = report_of(trace);
  CHECK(usage_of(report, "device").at("peak_bytes") == 7 * kMiB);
  CHECK(usage_of(report, "device").at("live_bytes_at_end") == 7 * kMiB);
  CHECK(usage_of(report, "device").at("frees") == 1);
  CHECK(loss_of(report, "order_repaired") == 1);
  CHECK(report.at("traces")[0].at("events") == 4);
}

TEST_CASE("a free in which the process died has freed what another thread got since", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 4 * kMiB, MemoryKind::kDevice, {.start = kT, .end = kT + 10});
  trace.free(0x10000000, MemoryKind::kDevice, {.start = kT + 100, .unfinished = true});
  trace.allocate(0x10000000, 6 * kMiB, MemoryKind::kDevice,
                 {.writer = 2, .start = kT + 110, .end = kT + 120});
  // Writer 2 begins a free of the address and never returns; writer 3 frees it. All of these lie
  // within the time window in which the analyzer repairs the order.
  trace.free(0x10000000, MemoryKind::kDevice, {.writer = 2, .start = kT + 130, .unfinished = true});
  trace.allocate(0x10000000, 5 * kMiB, MemoryKind::kDevice,
                 {.writer = 3, .start = kT + 140, .end = kT + 150});
  trace.free(0x10000000, MemoryKind::kDevice, {.writer = 3, .start = kT + 160, .end = kT + 170});
  trace.allocate(0x10000000, 3 * kMiB, MemoryKind::kDevice,
                 {.writer = 3, .start = kT + 180, .end = kT + 190});
  const Json report = report_of(trace, Ending::kKilled);
  CHECK(usage_of(report, "device").at("live_bytes_at_end") == 3 * kMiB);
  CHECK(usage_of(report, "device").at("frees") == 3);
  CHECK(loss_of(report, "order_repaired") == 0);
  CHECK(loss_of(report, "live_address_allocated") == 0);
  CHECK(loss_of(report, "unfinished_calls") == 2);
}

TEST_CASE("an address that is handed out while live ends the older allocation", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 4 * kMiB);
  trace.allocate(0x10000000, 6 * kMiB);
  const Json report = report_of(trace);
  CHECK(usage_of(report, "device").at("live_bytes_at_end") == 6 * kMiB);
  CHECK(usage_of(report, "device").at("frees") == 0);
  CHECK(usage_of(report, "device").at("exact") == false);
  CHECK(loss_of(report, "live_address_allocated") == 1);
}

TEST_CASE("many threads that hand one address around need no repair", "[unit]") {
  TraceBuilder trace;
  std::uint64_t now = kT;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const std::uint32_t giver = 1 + i % 16;
    const std::uint32_t taker = 1 + (i + 5) % 16;
    trace.allocate(0x10000000, kMiB, MemoryKind::kDevice,
                   {.writer = giver, .start = now, .end = now + 10});
    trace.free(0x10000000, MemoryKind::kDevice,
               {.writer = taker, .start = now + 12, .end = now + 30});
    now += 14;
  }
  const Json report = report_of(trace);
  CHECK(usage_of(report, "device").at("allocations") == 5000);
  CHECK(usage_of(report, "device").at("frees") == 5000);
  CHECK(usage_of(report, "device").at("peak_bytes") == kMiB);
  CHECK(loss_of(report, "order_repaired") == 0);
  CHECK(loss_of(report, "live_address_allocated") == 0);
}

TEST_CASE("a free that was refused leaves the allocation live and is reported", "[unit]") {
  constexpr std::uint16_t kInvalidValue = 1;
  TraceBuilder trace;
  trace.api(7, "cuMemFree_v2", "cudaFree");
  trace.allocate(0x10000000, 4 * kMiB);
  trace.free(0x10000000, MemoryKind::kDevice, {.result = kInvalidValue, .api = 7});
  trace.free(0x66660000, MemoryKind::kDevice, {.result = kInvalidValue, .api = 7});
  const Json report = report_of(trace);
  CHECK(usage_of(report, "device").at("live_bytes_at_end") == 4 * kMiB);
  CHECK(usage_of(report, "device").at("failed") == 1);
  const Json frees = report.at("leaks").at("invalid_frees");
  REQUIRE(frees.size() == 2);
  CHECK(row_where(frees, {{"address_was_live", true}}).at("function") == "cuMemFree_v2");
  CHECK(row_where(frees, {{"address_was_live", false}}).at("count") == 1);
}

TEST_CASE("a free that only repeats an earlier launch's error did free", "[unit]") {
  constexpr std::uint16_t kIllegalAddress = 700;
  TraceBuilder trace;
  trace.allocate(0x10000000, 4 * kMiB);
  trace.free(0x10000000, MemoryKind::kDevice, {.result = kIllegalAddress});
  const Json report = report_of(trace);
  CHECK(usage_of(report, "device").at("live_bytes_at_end") == 0);
  CHECK(report.at("leaks").at("invalid_frees").empty());
}

}  // namespace gpumemtrace::analyzer_order_test
