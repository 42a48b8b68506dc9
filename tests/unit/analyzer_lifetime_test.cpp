// SPDX-License-Identifier: Apache-2.0
// Memory whose life is not one allocation and one free: contexts, graphs, virtual memory, pools,
// imports.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer_lifetime_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

Json exit_rows(const Json& report) { return report.at("leaks").at("exit"); }

}  // namespace

TEST_CASE("a destroyed context ends its memory, which stays reportable", "[unit]") {
  TraceBuilder trace;
  trace.context(2, 0, false);
  trace.allocate(0x10000000, 4 * kMiB, MemoryKind::kDevice, {.context = 1});
  trace.allocate(0x20000000, 2 * kMiB, MemoryKind::kDevice, {.context = 2});
  trace.context_call(ContextOperation::kDestroy, 2);
  const Json report = report_of(trace);
  CHECK(usage_of(report, "device").at("live_bytes_at_end") == 4 * kMiB);
  CHECK(usage_of(report, "device").at("frees") == 0);
  CHECK(loss_of(report, "implicit_frees") == 1);
  const Json ended = row_where(exit_rows(report), {{"class", "context_destroyed"}});
  CHECK(ended.at("bytes") == 2 * kMiB);
  CHECK(ended.at("ended_by") == "context_destroyed");
  CHECK(row_where(exit_rows(report), {{"class", "lost"}}).at("bytes") == 4 * kMiB);
  CHECK(report.at("leaks").at("gated_bytes") == 4 * kMiB);
}

TEST_CASE("only the last release of a primary context ends memory", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 4 * kMiB);
  trace.context_call(ContextOperation::kReleasePrimary, 1, 1);
  CHECK(usage_of(report_of(trace), "device").at("live_bytes_at_end") == 4 * kMiB);

  TraceBuilder last;
  last.allocate(0x10000000, 4 * kMiB);
  last.context_call(ContextOperation::kReleasePrimary, 1, 0);
  const Json report = report_of(last);
  CHECK(usage_of(report, "device").at("live_bytes_at_end") == 0);
  CHECK(exit_rows(report)[0].at("ended_by") == "primary_context_released");
}

TEST_CASE("what the runtime tears down at exit is lost, unless the program still frees it",
          "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 4 * kMiB);
  trace.allocate(0x20000000, 2 * kMiB);
  trace.mark(MarkKind::kExit);
  trace.context_call(ContextOperation::kReleasePrimary, 1, 0);
  constexpr std::uint16_t kDeinitialized = 4;
  trace.free(0x20000000, MemoryKind::kDevice, {.result = kDeinitialized});
  const Json report = report_of(trace);
  REQUIRE(exit_rows(report).size() == 1);
  CHECK(exit_rows(report)[0].at("class") == "lost");
  CHECK(exit_rows(report)[0].at("bytes") == 4 * kMiB);
  CHECK(exit_rows(report)[0].at("ended_by") == "primary_context_released");
}

TEST_CASE("a captured allocation is live from launch to the graph's free node", "[unit]") {
  TraceBuilder trace;
  trace.graph(GraphOperation::kBeginCapture, 0, 0, 0, 0, 0x5);
  trace.allocate(0x10000000, 4 * kMiB, MemoryKind::kStreamOrdered, {.flags = kFlagCaptured});
  trace.allocate(0x20000000, 2 * kMiB, MemoryKind::kStreamOrdered, {.flags = kFlagCaptured});
  trace.free(0x10000000, MemoryKind::kStreamOrdered, {.flags = kFlagCaptured});
  trace.graph(GraphOperation::kEndCapture, 0x77, 0, 0, 0, 0x5);
  trace.graph(GraphOperation::kInstantiate, 0x77, 0x88);
  SECTION("before a launch it costs nothing") {
    CHECK(usage_of(report_of(trace), "graph").is_null());
  }
  SECTION("a launch makes all of it live, then frees what the graph frees") {
    trace.graph(GraphOperation::kLaunch, 0x88);
    const Json row = usage_of(report_of(trace), "graph");
    CHECK(row.at("level") == "driver");
    CHECK(row.at("peak_bytes") == 6 * kMiB);
    CHECK(row.at("live_bytes_at_end") == 2 * kMiB);
  }
  SECTION("destroying the graph frees nothing, a free from outside does") {
    trace.graph(GraphOperation::kLaunch, 0x88);
    trace.graph(GraphOperation::kLaunch, 0x88);
    trace.graph(GraphOperation::kDestroyExecutable, 0x88);
    trace.graph(GraphOperation::kDestroy, 0x77);
    CHECK(usage_of(report_of(trace), "graph").at("live_bytes_at_end") == 2 * kMiB);
    trace.free(0x20000000);
    const Json row = usage_of(report_of(trace), "graph");
    CHECK(row.at("live_bytes_at_end") == 0);
    CHECK(row.at("allocations") == 4);
    CHECK(row.at("frees") == 4);
  }
}

TEST_CASE("physical memory lives until its handle and all its mappings are gone", "[unit]") {
  TraceBuilder trace;
  trace.map(MappingOperation::kReserve, 0x100000000, 64 * kMiB);
  trace.allocate(0x9, 2 * kMiB, MemoryKind::kPhysical);
  trace.map(MappingOperation::kMap, 0x100000000, 2 * kMiB, 0x9);
  trace.free(0x9, MemoryKind::kPhysical);
  SECTION("a mapping keeps released memory") {
    CHECK(usage_of(report_of(trace), "vmm").at("live_bytes_at_end") == 2 * kMiB);
  }
  SECTION("a second reference keeps unmapped memory") {
    trace.allocate(0xa, 4 * kMiB, MemoryKind::kPhysical);
    trace.map(MappingOperation::kRetainHandle, 0, 0, 0xa);
    trace.free(0xa, MemoryKind::kPhysical);
    trace.map(MappingOperation::kUnmap, 0x100000000, 2 * kMiB);
    CHECK(usage_of(report_of(trace), "vmm").at("live_bytes_at_end") == 4 * kMiB);
    trace.free(0xa, MemoryKind::kPhysical);
    CHECK(usage_of(report_of(trace), "vmm").at("live_bytes_at_end") == 0);
  }
  SECTION("a released handle can come back from where it is mapped") {
    trace.map(MappingOperation::kRetainHandle, 0x100000000, 0, 0x9);
    trace.map(MappingOperation::kUnmap, 0x100000000, 2 * kMiB);
    CHECK(usage_of(report_of(trace), "vmm").at("live_bytes_at_end") == 2 * kMiB);
    trace.free(0x9, MemoryKind::kPhysical);
    const Json report = report_of(trace);
    CHECK(usage_of(report, "vmm").at("live_bytes_at_end") == 0);
    CHECK(loss_of(report, "unknown_frees") == 0);
  }
  SECTION("reservations and mappings are no memory") {
    const Json report = report_of(trace);
    CHECK(report.at("usage").size() == 1);
    CHECK(row_where(report.at("peak"), {{"level", "driver"}}).at("bytes") == 2 * kMiB);
  }
}

TEST_CASE("imported memory is shown and never summed", "[unit]") {
  TraceBuilder trace;
  Import open;
  open.operation = ImportOperation::kIpcOpen;
  open.address = 0x30000000;
  open.bytes = 8 * kMiB;
  trace.add_call(open, {});
  trace.map(MappingOperation::kImport, 0, 0, 0x21);
  trace.map(MappingOperation::kReserve, 0x100000000, 64 * kMiB);
  trace.map(MappingOperation::kMap, 0x100000000, 4 * kMiB, 0x21);
  trace.allocate(0x10000000, 1 * kMiB);
  const Json report = report_of(trace);
  CHECK(usage_of(report, "ipc").at("level") == "imported");
  CHECK(usage_of(report, "ipc").at("live_bytes_at_end") == 8 * kMiB);
  CHECK(usage_of(report, "vmm").at("level") == "imported");
  CHECK(usage_of(report, "vmm").at("peak_bytes") == 4 * kMiB);
  CHECK(report.at("devices")[0].at("physical_peak").at("bytes") == 1 * kMiB);
  CHECK(report.at("leaks").at("total_bytes") == 1 * kMiB);
  CHECK(report.at("peak").size() == 1);
}

TEST_CASE("each pool has its own row with what it holds back", "[unit]") {
  TraceBuilder trace;
  Pool create;
  create.operation = PoolOperation::kCreate;
  create.pool = 0x42;
  create.device = 0;
  trace.add_call(create, {});
  trace.allocate(0x10000000, 3 * kMiB, MemoryKind::kStreamOrdered);
  Allocation own;
  own.address = 0x20000000;
  own.bytes = 5 * kMiB;
  own.memory = MemoryKind::kStreamOrdered;
  own.pool = 0x42;
  trace.add_call(own, {});
  PoolSample sample;
  sample.pool = 0x99;
  sample.device = 0;
  sample.reserved_current = 32 * kMiB;
  sample.reserved_high = 64 * kMiB;
  trace.add(sample);
  const Json report = report_of(trace);
  // No sample tells the reserved bytes of the program's own pool, so the sum is unknown.
  const Json lay = row_where(report.at("fragmentation"), {{"level", "pool"}, {"at", "end"}});
  CHECK(lay.at("allocated_bytes") == 8 * kMiB);
  CHECK(lay.at("reserved_bytes").is_null());
  CHECK(row_where(report.at("fragmentation"), {{"level", "pool"}, {"at", "peak"}}).is_null());
  const Json of_device = row_where(report.at("usage"), {{"pool", "default"}});
  CHECK(of_device.at("peak_bytes") == 3 * kMiB);
  CHECK(of_device.at("reserved_peak_bytes") == 64 * kMiB);
  CHECK(of_device.at("reserved_bytes_at_end") == 32 * kMiB);
  const Json created = row_where(report.at("usage"), {{"peak_bytes", 5 * kMiB}});
  CHECK(created.at("reserved_peak_bytes").is_null());
  CHECK(row_where(report.at("peak"), {{"level", "pool"}}).at("bytes") == 8 * kMiB);
  CHECK(report.at("devices")[0].at("physical_peak").at("bytes") == 37 * kMiB);
}

TEST_CASE("a pool's free memory is told where the driver saw most of it", "[unit]") {
  TraceBuilder trace;
  const auto sample = [&](std::uint64_t reserved_bytes, std::uint64_t highest_bytes) {
    PoolSample record;
    record.pool = 0x99;
    record.device = 0;
    record.reserved_current = reserved_bytes;
    record.reserved_high = highest_bytes;
    trace.add(record);
  };
  const auto peak_of = [&] {
    return row_where(report_of(trace).at("fragmentation"), {{"level", "pool"}, {"at", "peak"}});
  };
  trace.allocate(0x10000000, 3 * kMiB, MemoryKind::kStreamOrdered);
  sample(32 * kMiB, 32 * kMiB);
  trace.free(0x10000000, MemoryKind::kStreamOrdered);
  sample(8 * kMiB, 32 * kMiB);
  SECTION("which was its highest point") {
    CHECK(peak_of().at("reserved_bytes") == 32 * kMiB);
    CHECK(peak_of().at("allocated_bytes") == 3 * kMiB);
    CHECK(peak_of().at("free_bytes") == 29 * kMiB);
    CHECK_FALSE(peak_of().contains("exact"));
  }
  SECTION("or not quite") {
    sample(8 * kMiB, 40 * kMiB);
    CHECK(peak_of().at("reserved_bytes") == 32 * kMiB);
    CHECK(peak_of().at("exact") == false);
  }
}

TEST_CASE("what a pool holds back counts in the driver's number of the same round", "[unit]") {
  TraceBuilder trace;
  const bool is_named = GENERATE(false, true);
  Allocation allocation;
  allocation.address = 0x10000000;
  allocation.bytes = 3 * kMiB;
  allocation.memory = MemoryKind::kStreamOrdered;
  if (is_named) {
    Pool create;
    create.operation = PoolOperation::kCreate;
    create.pool = 0x42;
    create.device = 0;
    trace.add_call(create, {});
    allocation.pool = 0x42;
  }
  trace.add_call(allocation, {});
  MemorySample of_device;  // the context holds 10 of the 42 MiB in use
  of_device.source = SampleSource::kMemGetInfo;
  of_device.device = 0;
  of_device.total_bytes = 100 * kMiB;
  of_device.free_bytes = 58 * kMiB;
  trace.add(of_device);
  PoolSample of_pool;
  of_pool.pool = is_named ? 0x42 : 0x99;
  of_pool.device = is_named ? -1 : 0;  // -1 = unknown, as for pools that the program made
  of_pool.reserved_current = 32 * kMiB;
  of_pool.reserved_high = 32 * kMiB;
  trace.add(of_pool);
  const Json report = report_of(trace);
  CHECK(report.at("devices")[0].at("physical_peak").at("bytes") == 32 * kMiB);
  const Json peak = row_where(report.at("composition"), {{"at", "driver_peak"}});
  CHECK(peak.at("pool_used") == 3 * kMiB);
  CHECK(peak.at("pool_cached") == 29 * kMiB);
  CHECK(peak.at("outside_calls") == 10 * kMiB);
  CHECK(peak.at("unattributed") == 10 * kMiB);
}

}  // namespace gpumemtrace::analyzer_lifetime_test
