// SPDX-License-Identifier: Apache-2.0
// The report's usage, peak and owners: what was allocated, by whom, and how much at once.
#include <limits>

#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer_usage_test {

using namespace gpumemtrace::tests;
using gpumemtrace::trace::MemoryKind;

TEST_CASE("usage counts allocations, frees, totals, the peak and what is live", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 3 * kMiB);
  trace.allocate(0x20000000, 5 * kMiB);
  trace.free(0x10000000);
  trace.allocate(0x30000000, 1 * kMiB);
  const Json report = report_of(trace);
  const Json row = usage_of(report, "device");
  CHECK(row.at("level") == "driver");
  CHECK(row.at("device") == "d0");
  CHECK(row.at("allocations") == 3);
  CHECK(row.at("frees") == 1);
  CHECK(row.at("allocated_bytes_total") == 9 * kMiB);
  CHECK(row.at("peak_bytes") == 8 * kMiB);
  CHECK(row.at("live_bytes_at_end") == 6 * kMiB);
  CHECK(row.at("live_count_at_end") == 2);
  CHECK(row.at("largest_bytes") == 5 * kMiB);
  CHECK_FALSE(row.contains("exact"));
}

TEST_CASE("the peak's holders are those who held at the peak, and sum to it", "[unit]") {
  TraceBuilder trace;
  trace.module(0x1000, 0x2000, "/usr/bin/job");
  trace.module(0x5000, 0x6000, "/opt/lib/libcublas.so.13");
  trace.text(gpumemtrace::trace::TextKey::kExecutable, "/usr/bin/job");
  trace.allocate(0x10000000, 4 * kMiB, MemoryKind::kDevice, {.caller = 0x1010});
  trace.allocate(0x20000000, 2 * kMiB, MemoryKind::kDevice, {.caller = 0x5010});
  trace.allocate(0x30000000, 1 * kMiB, MemoryKind::kDevice, {.caller = 0x1020});
  trace.free(0x10000000);
  trace.allocate(0x40000000, 1 * kMiB, MemoryKind::kDevice, {.caller = 0x1030});
  const Json report = report_of(trace);
  const Json peak = row_where(report.at("peak"), {{"level", "driver"}});
  CHECK(peak.at("bytes") == 7 * kMiB);
  REQUIRE(peak.at("holders").size() == 4);
  CHECK(peak.at("holders")[0].at("bytes") == 4 * kMiB);
  CHECK(peak.at("holders")[0].at("owner") == "program");
  CHECK(peak.at("holders")[0].at("site").at("offset") == 0x10);
  CHECK(peak.at("holders")[1].at("owner") == "cublas");
  CHECK(peak.at("holders")[1].at("site").at("module") == "libcublas.so.13");
  CHECK(peak.at("holders")[2].at("bytes") == 1 * kMiB);
  CHECK(peak.at("holders")[3].at("owner") == "other");
  CHECK(peak.at("holders")[3].at("bytes") == 0);
  const Json cublas = row_where(report.at("owners"), {{"owner", "cublas"}});
  CHECK(cublas.at("bytes_at_peak") == 2 * kMiB);
  CHECK(cublas.at("allocations") == 1);
}

TEST_CASE("failed allocations are counted and change nothing", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 3 * kMiB);
  trace.allocate(0, 900 * kMiB, MemoryKind::kDevice, {.result = 2});
  const Json row = usage_of(report_of(trace), "device");
  CHECK(row.at("failed") == 1);
  CHECK(row.at("allocations") == 1);
  CHECK(row.at("peak_bytes") == 3 * kMiB);
}

TEST_CASE("every family has its level and kind", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 1 * kMiB, MemoryKind::kPitched);
  trace.allocate(0x20000000, 2 * kMiB, MemoryKind::kManaged);
  trace.allocate(0x30000000, 3 * kMiB, MemoryKind::kStreamOrdered);
  trace.allocate(0x40000000, 4 * kMiB, MemoryKind::kPinned);
  trace.allocate(0x50000000, 5 * kMiB, MemoryKind::kRegistered);
  trace.allocate(0x60000000, 6 * kMiB, MemoryKind::kArray);
  trace.allocate(0x7, 7 * kMiB, MemoryKind::kPhysical);
  trace.allocate(0x8, 8 * kMiB, MemoryKind::kPhysicalHost);
  const Json report = report_of(trace);
  CHECK(usage_of(report, "pitched").at("level") == "driver");
  CHECK(usage_of(report, "managed").at("level") == "managed");
  CHECK(usage_of(report, "stream_ordered").at("level") == "pool");
  CHECK(usage_of(report, "pinned").at("level") == "host");
  CHECK(usage_of(report, "pinned").at("device").is_null());
  CHECK(usage_of(report, "registered").at("live_bytes_at_end") == 5 * kMiB);
  CHECK(usage_of(report, "array").at("level") == "driver");
  CHECK(usage_of(report, "vmm").at("live_bytes_at_end") == 7 * kMiB);
  CHECK(usage_of(report, "vmm_host").at("level") == "host");
  const Json driver = row_where(report.at("peak"), {{"level", "driver"}});
  CHECK(driver.at("bytes") == 14 * kMiB);
}

TEST_CASE("one ledger serves all free functions", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 1 * kMiB, MemoryKind::kPitched);
  trace.allocate(0x20000000, 2 * kMiB, MemoryKind::kManaged);
  trace.allocate(0x30000000, 3 * kMiB, MemoryKind::kStreamOrdered);
  trace.allocate(0x40000000, 4 * kMiB, MemoryKind::kDevice);
  for (const std::uint64_t address : {0x10000000u, 0x20000000u, 0x30000000u}) {
    trace.free(address, MemoryKind::kDevice);
  }
  trace.free(0x40000000, MemoryKind::kStreamOrdered);
  trace.free(0, MemoryKind::kDevice);
  const Json report = report_of(trace);
  for (const char* kind : {"pitched", "managed", "stream_ordered", "device"}) {
    CHECK(usage_of(report, kind).at("live_bytes_at_end") == 0);
    CHECK(usage_of(report, kind).at("frees") == 1);
  }
  CHECK(loss_of(report, "unknown_frees") == 0);
}

TEST_CASE("a call that never returned is counted and changes nothing", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 1 * kMiB);
  trace.free(0x10000000, MemoryKind::kDevice, {.unfinished = true});
  const Json report = report_of(trace, Ending::kKilled);
  CHECK(usage_of(report, "device").at("live_bytes_at_end") == kMiB);
  CHECK(loss_of(report, "unfinished_calls") == 1);
}

TEST_CASE("where a shared CUDA runtime called, owner and site are not known", "[unit]") {
  TraceBuilder trace;
  trace.module(0x1000, 0x2000, "/usr/lib/libcudart.so.13");
  trace.allocate(0x10000000, 1 * kMiB, MemoryKind::kDevice, {.caller = 0x1010});
  const Json report = report_of(trace);
  const Json holder = row_where(report.at("peak"), {{"level", "driver"}}).at("holders")[0];
  CHECK(holder.at("bytes") == kMiB);
  CHECK(holder.at("owner").is_null());
  CHECK(holder.at("site").is_null());
}

TEST_CASE("a runtime in between gives calls the names that the user wrote", "[unit]") {
  TraceBuilder trace;
  trace.api(1, "cuMemAlloc_v2", "cudaMalloc");
  trace.module(0x1000, 0x2000, "/home/me/with_static_runtime");
  trace.module(0x3000, 0x4000, "/home/me/driver_program");
  trace.requester(0x1800);
  constexpr auto kFromTable = gpumemtrace::trace::kFlagByPointer;
  trace.allocate(0x10000000, 4 * kMiB, MemoryKind::kDevice,
                 {.flags = kFromTable, .caller = 0x1010});
  trace.allocate(0x20000000, 2 * kMiB, MemoryKind::kDevice, {.caller = 0x3010});
  const Json report = report_of(trace);
  const Json holders = row_where(report.at("peak"), {{"level", "driver"}}).at("holders");
  CHECK(holders[0].at("site").at("api") == "cudaMalloc");
  CHECK(holders[1].at("site").at("api") == "cuMemAlloc_v2");
}

TEST_CASE("each level may have devices of its own that no other record names", "[unit]") {
  using gpumemtrace::trace::PeakScope;
  for (const PeakScope scope : {PeakScope::kPools, PeakScope::kManaged, PeakScope::kHost,
                                PeakScope::kFramework, PeakScope::kPhysical}) {
    TraceBuilder trace;
    for (std::int32_t device = 1; device <= 400; ++device) {
      gpumemtrace::trace::Peak peak;
      peak.scope = scope;
      peak.device = device;
      peak.bytes = 1000;
      peak.peak_time = trace.now();
      trace.add(peak);
    }
    CHECK(report_of(trace).at("devices").size() == 400);
  }
}

TEST_CASE("a device number that no machine has is left out, and counted", "[unit]") {
  TraceBuilder trace;
  trace.device(0, 1, 1 << 30);
  trace.device(1023, 2, 1 << 30);
  for (const std::int32_t device : {1024, 20'000'000, std::numeric_limits<std::int32_t>::max(), -3,
                                    std::numeric_limits<std::int32_t>::min()}) {
    trace.device(device, 3, 1 << 30);
    trace.sample(4 * kMiB, 0, device);
  }
  const Json report = report_of(trace);
  CHECK(report.at("devices").size() == 2);
  CHECK(loss_of(report, "malformed_records") == 10);
}

}  // namespace gpumemtrace::analyzer_usage_test
