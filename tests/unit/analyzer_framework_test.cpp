// SPDX-License-Identifier: Apache-2.0
// The framework's blocks inside driver memory: segments, fragmentation, composition.
#include "analyzer/model/memory/segment_map.hpp"
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer_framework_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

Json fragmentation_at(const Json& report, const char* at) {
  return row_where(report.at("fragmentation"), {{"level", "framework"}, {"at", at}});
}

Json segments_at(const Json& report, const char* at) {
  Json rows = Json::array();
  for (const Json& row : report.at("segments")) {
    if (row.at("at") == at) rows.push_back(row);
  }
  return rows;
}

std::uint64_t sum_of(const Json& rows, const char* key) {
  std::uint64_t sum = 0;
  for (const Json& row : rows) sum += row.at(key).get<std::uint64_t>();
  return sum;
}

constexpr std::int64_t signed_mib(std::int64_t mib) {
  return mib * static_cast<std::int64_t>(kMiB);
}

}  // namespace

TEST_CASE("blocks are a level inside driver segments and are not added to it", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x200000000, 20 * kMiB);
  trace.block(0x200000000, signed_mib(4), 20 * kMiB);
  trace.block(0x200400000, signed_mib(6), 20 * kMiB);
  trace.block(0x200000000, -signed_mib(4), 20 * kMiB);
  const Json report = report_of(trace);
  const Json blocks = usage_of(report, "block");
  CHECK(blocks.at("allocations") == 2);
  CHECK(blocks.at("frees") == 1);
  CHECK(blocks.at("peak_bytes") == 10 * kMiB);
  CHECK(blocks.at("live_bytes_at_end") == 6 * kMiB);
  CHECK(blocks.at("reserved_peak_bytes") == 20 * kMiB);
  CHECK(blocks.at("reserved_bytes_at_end") == 20 * kMiB);
  CHECK(blocks.at("segments_allocated") == 1);
  CHECK(report.at("devices")[0].at("physical_peak").at("bytes") == 20 * kMiB);
  CHECK(loss_of(report, "framework_mismatch") == 0);

  const Json segment = row_where(report.at("leaks").at("exit"), {{"level", "driver"}});
  CHECK(segment.at("class") == "framework_cache");
  CHECK(segment.at("owner") == "pytorch");
  const Json block = row_where(report.at("leaks").at("exit"), {{"level", "framework"}});
  CHECK(block.at("class") == "process_lifetime");
  CHECK(block.at("inside") == "driver");
  CHECK(report.at("leaks").at("total_bytes") == 20 * kMiB);
  CHECK(report.at("leaks").at("gated_bytes") == 0);
  CHECK(row_where(report.at("owners"), {{"level", "driver"}}).at("allocations") == 1);
}

TEST_CASE("a segment that the framework has counted already is not counted again", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x200000000, 20 * kMiB);
  trace.allocate(0x300000000, 20 * kMiB);
  trace.map(MappingOperation::kReserve, 0x500000000, 20 * kMiB);
  trace.allocate(0x71, 20 * kMiB, MemoryKind::kPhysical);
  trace.map(MappingOperation::kMap, 0x500000000, 20 * kMiB, 0x71);
  trace.block(0x200000000, signed_mib(4), 60 * kMiB);
  trace.block(0x300000000, signed_mib(4), 60 * kMiB);
  trace.block(0x500000000, signed_mib(4), 60 * kMiB);
  SECTION("by its first block") {
    CHECK(usage_of(report_of(trace), "block").at("reserved_peak_bytes") == 60 * kMiB);
  }
  SECTION("but its end counts, before the framework says so") {
    trace.block(0x300000000, -signed_mib(4), 60 * kMiB);
    trace.free(0x300000000);
    const Json blocks = usage_of(report_of(trace), "block");
    CHECK(blocks.at("reserved_peak_bytes") == 60 * kMiB);
    CHECK(blocks.at("reserved_bytes_at_end") == 40 * kMiB);
  }
}

TEST_CASE("fragmentation is measured at the peak, at its worst and at the end", "[unit]") {
  TraceBuilder trace;
  // Two segments: 10 MiB and 6 MiB.
  trace.allocate(0x200000000, 10 * kMiB);
  trace.block(0x200000000, signed_mib(4), 10 * kMiB);
  trace.block(0x200400000, signed_mib(1), 10 * kMiB);
  trace.block(0x200500000, signed_mib(5), 10 * kMiB);
  trace.allocate(0x300000000, 6 * kMiB);
  trace.block(0x300000000, signed_mib(2), 16 * kMiB);  // the peak: blocks take 12 of 16 MiB
  trace.block(0x200000000, -signed_mib(4), 16 * kMiB);
  trace.block(0x200500000, -signed_mib(5), 16 * kMiB);  // the worst: 9 + 4 MiB are free
  trace.block(0x300000000, -signed_mib(2), 16 * kMiB);  // now the second segment can be released
  const Json report = report_of(trace);

  const Json peak = fragmentation_at(report, "peak");
  CHECK(peak.at("reserved_bytes") == 16 * kMiB);
  CHECK(peak.at("allocated_bytes") == 12 * kMiB);
  CHECK(peak.at("free_bytes") == 4 * kMiB);
  CHECK(peak.at("largest_free_bytes") == 4 * kMiB);
  CHECK(peak.at("external_fragmentation") == 0.0);

  const Json worst = fragmentation_at(report, "worst");
  CHECK(worst.at("stranded_bytes") == 13 * kMiB);
  CHECK(worst.at("releasable_bytes") == 0);
  CHECK(worst.at("largest_free_bytes") == 5 * kMiB);
  CHECK(worst.at("pinned_by")[0].at("bytes_held") == 3 * kMiB);
  CHECK(worst.at("pinned_by")[0].at("bytes_stranded") == 13 * kMiB);

  const Json end = fragmentation_at(report, "end");
  CHECK(end.at("allocated_bytes") == 1 * kMiB);
  CHECK(end.at("free_bytes") == 15 * kMiB);
  CHECK(end.at("stranded_bytes") == 9 * kMiB);
  CHECK(end.at("releasable_bytes") == 6 * kMiB);
  CHECK(end.at("external_fragmentation").get<double>() == Approx(1.0 - 6.0 / 15.0));
}

TEST_CASE("segments are told at the worst moment, with what pins their free memory", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x200000000, 10 * kMiB);
  trace.block(0x200000000, signed_mib(6), 10 * kMiB);
  trace.block(0x200600000, signed_mib(4), 10 * kMiB);
  trace.allocate(0x300000000, 6 * kMiB);
  trace.block(0x300000000, signed_mib(6), 16 * kMiB);  // the peak: no byte is free
  SECTION("where it is another than the peak") {
    trace.block(0x200000000, -signed_mib(6), 16 * kMiB);  // the worst: 6 MiB are free beside 4 MiB
    trace.block(0x300000000, -signed_mib(6), 16 * kMiB);  // the second segment can be released
    const Json report = report_of(trace);
    CHECK(sum_of(segments_at(report, "peak"), "stranded_bytes") == 0);
    const Json worst = segments_at(report, "worst");
    REQUIRE(worst.size() == 2);
    CHECK(worst[0].at("time_ns") == fragmentation_at(report, "worst").at("time_ns"));
    CHECK(worst[0].at("stranded_bytes") == 6 * kMiB);
    REQUIRE(worst[0].at("pinned_by").size() == 1);
    CHECK(worst[0].at("pinned_by")[0].at("bytes_held") == 4 * kMiB);
    CHECK(worst[0].at("pinned_by")[0].at("bytes_stranded") == 6 * kMiB);
    CHECK(worst[0].at("pinned_by")[0].at("owner") == "pytorch");
    CHECK(worst[0].at("runs").size() == 2);
    CHECK(worst[1].at("pinned_by").empty());
  }
  SECTION("where it is the peak, once") {
    trace.allocate(0x400000000, 20 * kMiB);
    trace.block(0x400000000, signed_mib(1), 36 * kMiB);
    const Json report = report_of(trace);
    CHECK(sum_of(segments_at(report, "peak"), "stranded_bytes") == 19 * kMiB);
    CHECK(segments_at(report, "worst").empty());
  }
}

TEST_CASE("of a reservation only what lies beside blocks is unusable", "[unit]") {
  TraceBuilder trace;
  trace.map(MappingOperation::kReserve, 0x400000000, 1024 * kMiB);
  for (std::uint64_t i = 0; i < 3; ++i) {
    trace.allocate(0x11 + i, 20 * kMiB, MemoryKind::kPhysical);
    trace.map(MappingOperation::kMap, 0x400000000 + i * 20 * kMiB, 20 * kMiB, 0x11 + i);
    if (i == 0) trace.block(0x400000000, signed_mib(1), 20 * kMiB);
  }
  trace.block(0x400000000 + 45 * kMiB, signed_mib(5), 60 * kMiB);  // the second mapping stays free
  const Json peak = segments_at(report_of(trace), "peak");
  REQUIRE(peak.size() == 1);
  CHECK(peak[0].at("bytes") == 60 * kMiB);
  CHECK(peak[0].at("stranded_bytes") == 34 * kMiB);
  CHECK(sum_of(peak[0].at("pinned_by"), "bytes_stranded") == 34 * kMiB);
}

TEST_CASE("mappings of a reservation are one segment that grows and shrinks", "[unit]") {
  TraceBuilder trace;
  trace.map(MappingOperation::kReserve, 0x400000000, 1024 * kMiB);
  for (std::uint64_t i = 0; i < 3; ++i) {
    trace.allocate(0x11 + i, 20 * kMiB, MemoryKind::kPhysical);
    trace.map(MappingOperation::kMap, 0x400000000 + i * 20 * kMiB, 20 * kMiB, 0x11 + i);
    // The first block shows that the framework owns this address range.
    if (i == 0) trace.block(0x400000000, signed_mib(15), 20 * kMiB);
  }
  trace.block(0x400000000 + 15 * kMiB, signed_mib(30), 60 * kMiB);
  trace.block(0x400000000, -signed_mib(15), 60 * kMiB);
  const Json report = report_of(trace);
  const Json end = fragmentation_at(report, "end");
  CHECK(end.at("reserved_bytes") == 60 * kMiB);
  CHECK(end.at("allocated_bytes") == 30 * kMiB);
  CHECK(end.at("largest_free_bytes") == 15 * kMiB);
  // Each of the three mappings holds a part of the block, so none can go back while it lives.
  CHECK(end.at("stranded_bytes") == 30 * kMiB);
  CHECK(usage_of(report, "block").at("reserved_bytes_at_end") == 60 * kMiB);
  CHECK(usage_of(report, "vmm").at("live_bytes_at_end") == 60 * kMiB);
  CHECK(row_where(report.at("composition"), {{"at", "end"}}).at("other").empty());
}

TEST_CASE("the composition sums to the driver's own number", "[unit]") {
  TraceBuilder trace;
  trace.module(0x5000, 0x6000, "/opt/lib/libnccl.so.2");
  trace.allocate(0x200000000, 20 * kMiB);
  trace.block(0x200000000, signed_mib(12), 20 * kMiB);
  trace.allocate(0x10000000, 3 * kMiB, MemoryKind::kDevice, {.caller = 0x5010});
  trace.sample(500 * kMiB, 70 * kMiB);
  trace.allocate(0x20000000, 1 * kMiB, MemoryKind::kDevice, {.caller = 0x5010});
  const Json report = report_of(trace);
  const Json row = row_where(report.at("composition"), {{"at", "driver_peak"}});
  CHECK(row.at("source") == "nvml_process");
  CHECK(row.at("framework_allocated") == 12 * kMiB);
  CHECK(row.at("framework_cached") == 8 * kMiB);
  CHECK(row.at("other")[0].at("owner") == "nccl");
  CHECK(row.at("other")[0].at("bytes") == 4 * kMiB);
  CHECK(row.at("context_and_modules") == 477 * kMiB);
  CHECK(row.at("other_processes") == 70 * kMiB);
  CHECK(row.at("driver_bytes") == 570 * kMiB);
  // The sample is older than the peak by one allocation.
  CHECK(row.at("unattributed") == -signed_mib(1));
}

TEST_CASE("without a sample the driver's number is not known", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, 3 * kMiB);
  const Json row = row_where(report_of(trace).at("composition"), {{"at", "end"}});
  CHECK(row.at("source") == "none");
  CHECK(row.at("context_and_modules").is_null());
  CHECK(row.at("unattributed").is_null());
}

TEST_CASE("the framework's own totals are compared with the blocks of the trace", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x200000000, 20 * kMiB);
  Block unseen;
  unseen.address = 0x200000000;
  unseen.bytes = signed_mib(2);
  unseen.allocated = 9 * kMiB;
  unseen.reserved_bytes = 20 * kMiB;
  unseen.device_type = 1;
  unseen.device = 0;
  trace.add(unseen);
  CHECK(loss_of(report_of(trace), "framework_mismatch") == 1);
}

TEST_CASE("at the peak every segment is told with its blocks and the holes between them",
          "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x200000000, 20 * kMiB);
  trace.block(0x200000000, signed_mib(4), 20 * kMiB);
  trace.block(0x200400000, signed_mib(6), 20 * kMiB);
  trace.block(0x200a00000, signed_mib(2), 20 * kMiB);
  trace.block(0x200400000, -signed_mib(6), 20 * kMiB);
  trace.block(0x200c00000, signed_mib(7), 20 * kMiB);
  const Json report = report_of(trace);
  const Json segments = segments_at(report, "peak");
  REQUIRE(segments.size() == 1);
  const Json& segment = segments[0];
  CHECK(segment.at("address") == 0x200000000);
  CHECK(segment.at("bytes") == 20 * kMiB);
  CHECK(segment.at("allocated_bytes") == 13 * kMiB);
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint64_t> allocated;
  for (const Json& run : segment.at("runs")) {
    bytes.push_back(run.at("bytes").get<std::uint64_t>() / kMiB);
    allocated.push_back(run.at("allocated_bytes").get<std::uint64_t>() / kMiB);
  }
  CHECK(bytes == std::vector<std::uint64_t>{4, 6, 2, 7, 1});
  CHECK(allocated == std::vector<std::uint64_t>{4, 0, 2, 7, 0});
}

TEST_CASE("many small blocks are few runs, and many segments few rows, that still sum", "[unit]") {
  TraceBuilder trace;
  constexpr std::uint64_t kSegments = 300;
  for (std::uint64_t i = 0; i < kSegments; ++i) {
    const std::uint64_t begin = 0x200000000 + i * 4 * kMiB;
    trace.allocate(begin, 2 * kMiB);
    for (std::uint64_t block = 0; block < 32; ++block) {
      trace.block(begin + block * 2048, 1024, (i + 1) * 2 * kMiB);
    }
  }
  const Json report = report_of(trace);
  const Json segments = segments_at(report, "peak");
  CHECK(segments.size() == 257);
  const Json rest = row_where(segments, {{"address", nullptr}});
  CHECK(rest.at("segments") == kSegments - 256);
  for (const Json& row : segments) CHECK(row.at("runs").size() <= 3);
  CHECK(sum_of(segments, "bytes") == kSegments * 2 * kMiB);
  CHECK(sum_of(segments, "stranded_bytes") ==
        fragmentation_at(report, "peak").at("stranded_bytes").get<std::uint64_t>());
  CHECK(segments[0].at("runs")[0].at("allocated_bytes") == 32 * 1024);
}

TEST_CASE("a segment behind many smaller ones of one size has a row of its own", "[unit]") {
  std::vector<analyzer::Unit> units;
  for (std::uint64_t i = 1; i <= 300; ++i) units.push_back({i * 4 * kMiB, 2 * kMiB, i});
  units.push_back({0x900000000, 20 * kMiB, 301});
  const analyzer::SegmentMap map = analyzer::map_segments(units, {});
  REQUIRE(map.segments.size() == 256);
  CHECK(map.segments.back().bytes == 20 * kMiB);
  CHECK(map.further_segments == 45);
  CHECK(map.further_bytes == 45 * 2 * kMiB);
}

}  // namespace gpumemtrace::analyzer_framework_test
