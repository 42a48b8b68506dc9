// SPDX-License-Identifier: Apache-2.0
// Memory that the driver takes by itself, and the findings about it: contexts and CUDA graphs.
#include "tests/catch.hpp"
#include "tests/support/finding_query.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::rules_card_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kAddress = 0x7000'0000'0000;
constexpr std::uint64_t kContextMiB = 520;

Json findings_named(const Json& report, std::string_view rule) {
  Json found = Json::array();
  for (const Json& finding : report.at("findings")) {
    if (finding.at("rule") == rule) found.push_back(finding);
  }
  return found;
}

// A server that instantiates a graph for each request; the driver takes 1 MiB for each graph.
TraceBuilder graphs_trace(std::uint64_t graphs, std::uint64_t launches_of_each, bool destroys) {
  TraceBuilder trace = program_trace();
  trace.allocate(kAddress, 100 * kMiB);
  for (std::uint64_t i = 0; i < graphs; ++i) {
    trace.sample((100 + 500 + (destroys ? 1 : i)) * kMiB, 0);
    Graph record;
    record.operation = GraphOperation::kInstantiate;
    record.graph = 0x10;
    record.executable = 0x1000 + i;
    trace.add_call(record, call_at(0x40));
    for (std::uint64_t launch = 0; launch < launches_of_each; ++launch) {
      trace.graph(GraphOperation::kLaunch, 0x1000 + i);
    }
    if (destroys) trace.graph(GraphOperation::kDestroyExecutable, 0x1000 + i);
  }
  trace.sample((100 + 500 + (destroys ? 1 : graphs)) * kMiB, 0);
  trace.free(kAddress);
  return trace;
}

// A trainer and workers on one device, each with a context of its own.
Json report_of_workers(std::uint64_t workers, std::uint64_t bytes_of_each,
                       bool contexts_are_seen = true, bool they_open_memory = false) {
  const TemporaryFolder folder;
  for (std::uint32_t i = 0; i <= workers; ++i) {
    TraceBuilder trace = program_trace(10 + i);
    const bool is_trainer = i == 0;
    const std::uint64_t bytes = is_trainer ? 200 * kMiB : bytes_of_each;
    trace.device(0, 0x1234, 4096 * kMiB);
    const Call made_at = call_at(is_trainer ? 0x20 : 0x60);
    if (contexts_are_seen) {
      trace.context_call(ContextOperation::kRetainPrimary, 1, 0, made_at);
    }
    if (they_open_memory && !is_trainer) {
      trace::Import opened;
      opened.operation = trace::ImportOperation::kIpcOpen;
      opened.address = 2 * kAddress;
      opened.bytes = kMiB;
      trace.add_call(opened, call_at(0x70));
    }
    trace.allocate(kAddress, bytes, MemoryKind::kDevice, call_at(0x30));
    trace.wait_until(TraceBuilder::kFirstTick + 10'000 + 10 * i);
    const std::uint64_t of_all =
        200 * kMiB + workers * bytes_of_each + (workers + 1) * kContextMiB * kMiB;
    const std::uint64_t own = bytes + kContextMiB * kMiB;
    trace.sample(own, of_all - own);
    trace.wait_until(TraceBuilder::kFirstTick + 20'000);
    trace.free(kAddress);
    trace.write(folder.path());
  }
  return analyze_json({folder.path()}, {});
}

}  // namespace

TEST_CASE("graphs that are instantiated for one launch each are told with what they take",
          "[unit]") {
  TraceBuilder trace = graphs_trace(120, 1, false);
  const Json report = report_of(trace);
  const Json found = findings_named(report, "graphs_pile_up");
  REQUIRE(found.size() == 1);
  CHECK(offset_of(found[0]) == 0x40);
  CHECK(found[0].at("bytes") == 120 * kMiB);
  CHECK(found[0].at("evidence").at("live_peak") == 120);
  CHECK(has(found[0], "120 CUDA graphs"));
  CHECK(has(found[0], "cudaGraphExecUpdate"));
  const Json row = report.at("driver_memory")[0];
  CHECK(row.at("samples") == 121);
  CHECK(row.at("first_bytes") == 500 * kMiB);
  CHECK(row.at("peak_bytes") == 620 * kMiB);
  CHECK(row.at("end_bytes") == 620 * kMiB);
  CHECK(row.at("graphs").at("live_peak") == 120);
  const Json graphs = row_where(row.at("parts"), {{"what", "graphs"}});
  CHECK(graphs.at("bytes") == 120 * kMiB);
  CHECK(row_where(row.at("parts"), {{"what", "unknown"}}).at("bytes") == 500 * kMiB);
}

TEST_CASE("graphs that are launched often, or destroyed, do not pile up", "[unit]") {
  TraceBuilder often = graphs_trace(120, 4, false);
  CHECK(findings_of(often, "graphs_pile_up").empty());
  TraceBuilder destroyed = graphs_trace(120, 1, true);
  CHECK(findings_of(destroyed, "graphs_pile_up").empty());
}

TEST_CASE("workers that hold a context and nothing else are one finding", "[unit]") {
  const Json report = report_of_workers(4, 2 * kMiB);
  REQUIRE(report.at("findings").size() == 1);
  const Json found = report.at("findings")[0];
  CHECK(found.at("rule") == "idle_contexts");
  CHECK(found.at("bytes") == 4 * (kContextMiB + 2) * kMiB);
  CHECK(found.at("evidence").at("processes") == 4);
  CHECK(offset_of(found) == 0x60);
}

TEST_CASE("a context whose call was not seen is told by the line that used it", "[unit]") {
  const Json report = report_of_workers(1, 2 * kMiB, false);
  REQUIRE(report.at("findings").size() == 1);
  CHECK(offset_of(report.at("findings")[0]) == 0x30);
}

TEST_CASE("workers that use their contexts, and one process alone, are no fault", "[unit]") {
  CHECK(findings_named(report_of_workers(4, 200 * kMiB), "idle_contexts").empty());
  CHECK(findings_named(report_of_workers(0, 0), "idle_contexts").empty());
  CHECK(findings_named(report_of_workers(4, 2 * kMiB, true, true), "idle_contexts").empty());
}

TEST_CASE("an idle context does not count what its process holds on other devices", "[unit]") {
  const TemporaryFolder folder;
  for (const bool is_trainer : {true, false}) {
    TraceBuilder trace = program_trace(is_trainer ? 10 : 11);
    trace.device(0, 0x1234, 4096 * kMiB);
    trace.device(1, 0x5678, 4096 * kMiB);
    const std::uint64_t bytes = (is_trainer ? 200 : 2) * kMiB;
    const std::uint64_t own = bytes + kContextMiB * kMiB;
    const std::uint64_t of_both = (202 + 2 * kContextMiB) * kMiB;
    if (!is_trainer) {
      trace.context(2, 1);
      trace.allocate(2 * kAddress, 20 * kMiB, MemoryKind::kDevice, {.context = 2});
    }
    trace.allocate(kAddress, bytes, MemoryKind::kDevice, call_at(0x30));
    trace.wait_until(TraceBuilder::kFirstTick + (is_trainer ? 10'000 : 10'010));
    trace.sample(own, of_both - own);
    trace.wait_until(TraceBuilder::kFirstTick + 20'000);
    trace.free(kAddress);
    if (!is_trainer) trace.free(2 * kAddress);
    trace.write(folder.path());
  }
  const Json found = findings_named(analyze_json({folder.path()}, {}), "idle_contexts");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("bytes") == (kContextMiB + 2) * kMiB);
  CHECK(found[0].at("evidence").at("largest_bytes") == (kContextMiB + 2) * kMiB);
  CHECK(found[0].at("evidence").at("most_allocated_bytes") == 2 * kMiB);
  CHECK(has(found[0], "takes up to 520.0 MiB"));
}

TEST_CASE("the largest holder on another rank's device gives the line, also if it is in a pool",
          "[unit]") {
  const TemporaryFolder folder;
  for (const std::uint32_t rank : {0u, 1u}) {
    TraceBuilder trace = program_trace(10 + rank);
    trace.text(TextKey::kLocalRank, std::to_string(rank));
    trace.device(0, 0x1234, 4096 * kMiB);
    trace.device(1, 0x5678, 4096 * kMiB);
    if (rank == 1) trace.context(2, 1);
    trace.allocate(kAddress, 800 * kMiB, MemoryKind::kDevice, {.context = 1 + rank});
    if (rank == 1) {
      constexpr std::uint64_t kDriver = 2 * kAddress;
      constexpr std::uint64_t kPool = kDriver + 1024 * kMiB;
      trace.allocate(kDriver, 60 * kMiB, MemoryKind::kDevice, call_at(0x20));
      trace.allocate(kDriver + 512 * kMiB, 60 * kMiB, MemoryKind::kDevice, call_at(0x40));
      trace.allocate(kPool, 100 * kMiB, MemoryKind::kStreamOrdered, call_at(0x30));
      trace.free(kDriver);
      trace.free(kDriver + 512 * kMiB);
      trace.free(kPool, MemoryKind::kStreamOrdered);
    }
    trace.free(kAddress);
    trace.write(folder.path());
  }
  const Json found = findings_named(analyze_json({folder.path()}, {}), "wrong_device");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("bytes") == 220 * kMiB);
  CHECK(found[0].at("site").at("offset") == 0x30);
}

TEST_CASE("a rank on another rank's device takes its context there, too", "[unit]") {
  const TemporaryFolder folder;
  for (const std::uint32_t rank : {0u, 1u}) {
    TraceBuilder trace = program_trace(10 + rank);
    trace.text(TextKey::kLocalRank, std::to_string(rank));
    trace.device(0, 0x1234, 4096 * kMiB);
    trace.device(1, 0x5678, 4096 * kMiB);
    if (rank == 1) trace.context(2, 1);
    trace.allocate(kAddress, 800 * kMiB, MemoryKind::kDevice, {.context = 1 + rank});
    trace.sample((800 + kContextMiB) * kMiB, 0, static_cast<std::int32_t>(rank));
    if (rank == 1) {
      trace.allocate(2 * kAddress, 2 * kMiB);
      trace.sample((2 + kContextMiB) * kMiB, 0);
      trace.free(2 * kAddress);
    }
    trace.free(kAddress);
    trace.write(folder.path());
  }
  const Json report = analyze_json({folder.path()}, {});
  REQUIRE(report.at("findings").size() == 1);
  const Json found = report.at("findings")[0];
  CHECK(found.at("rule") == "wrong_device");
  CHECK(found.at("bytes") == (kContextMiB + 2) * kMiB);
  CHECK(found.at("evidence").at("context_bytes") == kContextMiB * kMiB);
}

TEST_CASE("local memory follows the limit of each thread's stack", "[unit]") {
  TraceBuilder trace;
  Device device;
  device.ordinal = 0;
  device.uuid_low = 0x1234;
  device.total_bytes = 80'000 * kMiB;
  device.multiprocessors = 132;
  device.threads_per_multiprocessor = 2048;
  trace.add(device, 1, "Test GPU");
  trace.context_call(ContextOperation::kRetainPrimary, 1);
  trace.sample(520 * kMiB, 0);
  const auto limit = [&](std::uint64_t stack_bytes) {
    ContextLimits limits;
    limits.context = ContextId{1};
    limits.device = 0;
    limits.stack_bytes = stack_bytes;
    trace.add(limits);
  };
  limit(1024);  // 264 MiB of local memory
  limit(8192);  // 2112 MiB of local memory
  trace.sample((520 + 2112 - 264) * kMiB, 0);
  const Json row = report_of(trace).at("driver_memory")[0];
  CHECK(row.at("peak_bytes") == (520 + 2112 - 264) * kMiB);
  CHECK(row_where(row.at("parts"), {{"what", "local_memory"}}).at("bytes") == 2112 * kMiB);
  CHECK(row_where(row.at("parts"), {{"what", "context"}}).at("bytes") == (520 - 264) * kMiB);
}

TEST_CASE("the heap of kernels is told by growth of its limit and a chunk", "[unit]") {
  const auto heap_of = [](std::uint64_t limit_mib, std::uint64_t growth_mib) {
    TraceBuilder trace;
    trace.device(0, 0x1234, 80'000 * kMiB);
    trace.context_call(ContextOperation::kRetainPrimary, 1);
    trace.sample(520 * kMiB, 0);
    ContextLimits limits;
    limits.context = ContextId{1};
    limits.device = 0;
    limits.heap_bytes = limit_mib * kMiB;
    trace.add(limits);
    trace.sample((520 + growth_mib) * kMiB, 0);
    // A context has one heap, so a second growth by the same bytes has another cause.
    trace.sample((520 + 2 * growth_mib) * kMiB, 0);
    const Json row = report_of(trace).at("driver_memory")[0];
    CHECK(row.at("peak_bytes") == (520 + 2 * growth_mib) * kMiB);
    return row_where(row.at("parts"), {{"what", "heap"}});
  };
  CHECK(heap_of(128, 130).at("bytes") == 130 * kMiB);
  CHECK(heap_of(128, 128).is_null());
  // A context has a heap limit of 8 MiB from the start: growth by 10 MiB may have any cause.
  CHECK(heap_of(8, 10).is_null());
}

}  // namespace gpumemtrace::rules_card_test
