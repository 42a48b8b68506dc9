// SPDX-License-Identifier: Apache-2.0
// CUPTI's own record of allocations held against ours, and what it says of managed memory.
#include "tests/catch.hpp"
#include "tests/support/activity_builder.hpp"
#include "tests/support/report_query.hpp"

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kAddress = 0x7000'1000'0000;
constexpr std::uint32_t kAllocate = 1;
constexpr std::uint32_t kRelease = 2;
constexpr std::uint32_t kPinned = 2;
constexpr std::uint32_t kDeviceMemory = 3;
constexpr std::uint32_t kArrayMemory = 4;
constexpr std::uint32_t kManagedMemory = 5;

struct Traced {
  TraceBuilder trace;
  ActivityBuilder cupti{trace};

  Traced() {
    cupti.state(ActivityMode::kFull);
    cupti.clock(2'000'000);
    trace.wait_until(3'000'000);
    trace.api(1, "cuMemAlloc_v2", "cudaMalloc");
    trace.api(2, "cuMemFree_v2", "cudaFree");
  }
  // An allocation of ours; CUPTI's record of it would have the time `now() - 2`.
  void allocate(std::uint64_t address, std::uint64_t bytes,
                MemoryKind memory = MemoryKind::kDevice) {
    trace.allocate(address, bytes, memory);
  }
  void free(std::uint64_t address, MemoryKind memory = MemoryKind::kDevice) {
    trace.free(address, memory, {.api = 2});
  }
  void record(std::uint32_t operation, std::uint32_t kind, std::uint64_t address,
              std::uint64_t bytes, std::uint64_t at = 0) {
    ActivityMemory memory;
    memory.timestamp = cupti.shown(at != 0 ? at : trace.now() - 2);
    memory.address = address;
    memory.bytes = bytes;
    memory.operation = operation;
    memory.memory_kind = kind;
    trace.add(memory, ActivityBuilder::kWriter);
  }
  void migrate(std::uint32_t counter, std::uint64_t address, std::uint64_t value, Interval time) {
    ActivityManaged managed;
    managed.start = cupti.shown(time.start);
    managed.end = time.end == 0 ? 0 : cupti.shown(time.end);
    managed.address = address;
    managed.value = value;
    managed.counter = counter;
    trace.add(managed, ActivityBuilder::kWriter);
  }
  // The last record, so that everything before is judged.
  Json report() {
    allocate(0x9999'0000, 8);
    record(kAllocate, kDeviceMemory, 0x9999'0000, 8);
    cupti.clock(trace.now() + 1'000'000);
    return report_of(trace);
  }
};

Json disagreements_of(const Json& report) {
  return report.at("coverage").at("memory2_disagreements");
}

}  // namespace

TEST_CASE("allocations that CUPTI saw as we did agree", "[unit]") {
  Traced traced;
  traced.allocate(kAddress, 1000);
  traced.record(kAllocate, kDeviceMemory, kAddress, 1000);
  traced.free(kAddress);
  traced.record(kRelease, kDeviceMemory, kAddress, 1000);
  traced.allocate(kAddress, 500, MemoryKind::kStreamOrdered);
  traced.record(kAllocate, kDeviceMemory, kAddress, 500);
  traced.allocate(0x5000'0010, 5000, MemoryKind::kRegistered);
  traced.record(kAllocate, kPinned, 0x5000'0010, 8192);
  traced.allocate(0x6000'0000, 4096, MemoryKind::kManaged);
  traced.record(kAllocate, kManagedMemory, 0x6000'0000, 4096);
  traced.allocate(0x77, 100, MemoryKind::kArray);
  traced.record(kAllocate, kArrayMemory, 0x77, 512);
  traced.allocate(0x88, 100, MemoryKind::kPhysical);  // of which CUPTI says nothing
  const Json report = traced.report();
  CHECK(disagreements_of(report).empty());
  const Json memory2 = report.at("coverage").at("memory2")[0];
  CHECK(memory2.at("records") == 7);
  CHECK(memory2.at("agreed") == 7);
  CHECK(memory2.at("not_judged") == 0);
}

TEST_CASE("what only one of the two saw, and what they saw differently, is told by name",
          "[unit]") {
  Traced traced;
  traced.allocate(kAddress, 1000);
  traced.record(kAllocate, kDeviceMemory, kAddress, 1024);
  traced.allocate(2 * kAddress, 1000, MemoryKind::kPinned);
  traced.record(kAllocate, kDeviceMemory, 2 * kAddress, 1000);
  traced.allocate(3 * kAddress, 77);
  traced.allocate(4 * kAddress, 78);
  traced.record(kAllocate, kDeviceMemory, 5 * kAddress, 40);
  traced.record(kRelease, kDeviceMemory, 5 * kAddress, 40);
  const Json rows = disagreements_of(traced.report());
  REQUIRE(rows.size() == 5);
  CHECK(row_where(rows, {{"what", "bytes_differ"}}).at("cupti_bytes") == 1024);
  CHECK(row_where(rows, {{"what", "kind_differs"}}).at("cupti_kind") == "device");
  const Json missing = row_where(rows, {{"what", "missing_in_cupti"}});
  CHECK(missing.at("function") == "cuMemAlloc_v2");
  CHECK(missing.at("count") == 2);
  CHECK(missing.at("bytes") == 155);
  const Json unseen = row_where(rows, {{"what", "missing_in_trace"}, {"operation", "allocation"}});
  CHECK(unseen.at("cupti_bytes") == 40);
  CHECK(unseen.at("function").is_null());
  CHECK(unseen.at("explained_by").is_null());
}

TEST_CASE("memory that no allocation function makes is told apart", "[unit]") {
  Traced traced;
  traced.trace.api(5, "cuModuleLoadData", "");
  traced.record(kAllocate, 6, kAddress, 40);
  traced.record(kAllocate, kDeviceMemory, 0, 32 * kMiB);
  traced.trace.add_call(OtherCall{}, {.start = 4'000'000, .end = 4'009'000, .api = 5});
  traced.record(kAllocate, kDeviceMemory, 3 * kAddress, 8, 4'001'000);
  const Json rows = disagreements_of(traced.report());
  REQUIRE(rows.size() == 3);
  CHECK(row_where(rows, {{"explained_by", "module_global"}}).at("cupti_bytes") == 40);
  CHECK(row_where(rows, {{"explained_by", "graph_pool"}}).at("cupti_bytes") == 32 * kMiB);
  CHECK(row_where(rows, {{"explained_by", "made_by_another_call"}}).at("during") ==
        "cuModuleLoadData");
}

TEST_CASE("the levels of a mipmapped array are explained where their bytes are the array's",
          "[unit]") {
  for (const std::uint64_t smallest : {400, 401}) {
    Traced traced;
    traced.trace.api(6, "cuMipmappedArrayCreate", "cudaMallocMipmappedArray");
    traced.trace.allocate(0x77, 2000, MemoryKind::kMipmappedArray, {.api = 6});
    traced.record(kAllocate, kArrayMemory, 0x78, 1600);
    traced.record(kAllocate, kArrayMemory, 0x79, smallest);
    const Json rows = disagreements_of(traced.report());
    const Json explanation = smallest == 400 ? Json("mipmap_levels") : Json(nullptr);
    CHECK(row_where(rows, {{"what", "missing_in_trace"}}).at("explained_by") == explanation);
    CHECK(row_where(rows, {{"what", "missing_in_cupti"}}).at("explained_by") == explanation);
  }
}

TEST_CASE("an address that is handed out again before CUPTI's records come is no confusion",
          "[unit]") {
  // CUPTI says one byte more of the allocation with that number.
  const auto disagreements = [](std::uint64_t wrong) {
    Traced traced;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> made;
    for (std::uint64_t i = 1; i <= 50; ++i) {
      traced.allocate(kAddress, i);
      made.emplace_back(traced.trace.now() - 2, i + (i == wrong ? 1 : 0));
      traced.free(kAddress);
      made.emplace_back(traced.trace.now() - 2, i);
    }
    for (std::size_t i = made.size(); i-- > 0;) {
      traced.record(i % 2 == 0 ? kAllocate : kRelease, kDeviceMemory, kAddress, made[i].second,
                    made[i].first);
    }
    return disagreements_of(traced.report()).size();
  };
  CHECK(disagreements(0) == 0);
  CHECK(disagreements(20) == 1);
}

TEST_CASE("what was allocated before the recorder told its mode is judged, too", "[unit]") {
  TraceBuilder trace;
  ActivityBuilder cupti(trace);
  trace.allocate(kAddress, 1000);
  const std::uint64_t at = trace.now() - 2;
  trace.wait_until(500'000'000);
  cupti.state(ActivityMode::kFull);
  cupti.clock(trace.now());
  ActivityMemory memory;
  memory.timestamp = cupti.shown(at);
  memory.address = kAddress;
  memory.bytes = 1000;
  memory.operation = kAllocate;
  memory.memory_kind = kDeviceMemory;
  trace.add(memory, 0);
  const Json report = report_of(trace);
  CHECK(disagreements_of(report).empty());
  CHECK(report.at("coverage").at("memory2")[0].at("agreed") == 1);
}

TEST_CASE("calls after CUPTI's last record are not judged", "[unit]") {
  Traced traced;
  traced.allocate(kAddress, 1000);
  traced.record(kAllocate, kDeviceMemory, kAddress, 1000);
  traced.allocate(2 * kAddress, 1000);
  const Json report = report_of(traced.trace);
  CHECK(disagreements_of(report).empty());
  CHECK(report.at("coverage").at("memory2")[0].at("not_judged") == 1);
}

TEST_CASE("migrations and faults of managed memory belong to its allocation", "[unit]") {
  Traced traced;
  traced.allocate(kAddress, 4 * kMiB, MemoryKind::kManaged);
  traced.migrate(1, kAddress + 4096, 2 * kMiB, {3'100'000, 3'100'500});
  traced.migrate(2, kAddress, kMiB, {3'101'000, 3'101'100});
  traced.migrate(3, kAddress, 0x401000, {3'102'000, 0});
  traced.migrate(4, kAddress + kMiB, 17, {3'103'000, 3'103'010});
  traced.migrate(1, 0x1234, 512, {3'104'000, 3'104'001});
  const Json rows = traced.report().at("managed");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("to_device_bytes") == 2 * kMiB);
  CHECK(rows[0].at("to_host_bytes") == kMiB);
  CHECK(rows[0].at("migrations") == 2);
  CHECK(rows[0].at("migration_time_ns") == 600);
  CHECK(rows[0].at("cpu_faults") == 1);
  CHECK(rows[0].at("gpu_faults") == 17);
  CHECK(rows[0].at("round_trips") == 0.25);
  CHECK(rows[0].at("bytes") == 4 * kMiB);
  CHECK(rows[1].at("to_device_bytes") == 512);
  CHECK(rows[1].at("allocations") == 0);
}

TEST_CASE("a migration that is told late belongs to who had the address then", "[unit]") {
  Traced traced;
  traced.trace.module(0x1000, 0x9000, "/tmp/a.out");
  traced.trace.allocate(kAddress, kMiB, MemoryKind::kManaged, {.caller = 0x1100});
  const std::uint64_t before = traced.trace.now() + 1;
  traced.free(kAddress);
  traced.trace.allocate(kAddress, 2 * kMiB, MemoryKind::kManaged, {.caller = 0x1200});
  const std::uint64_t after = traced.trace.now() + 1;
  traced.trace.wait_until(3'100'000);
  traced.migrate(1, kAddress, 100, {before, before + 1});
  traced.migrate(1, kAddress, 300, {after, after + 1});
  const Json rows = traced.report().at("managed");
  CHECK(row_where(rows, {{"bytes", kMiB}}).at("to_device_bytes") == 100);
  CHECK(row_where(rows, {{"bytes", 2 * kMiB}}).at("to_device_bytes") == 300);
}

TEST_CASE("what CUPTI says of a pool stands beside what the driver was asked", "[unit]") {
  Traced traced;
  ActivityPool pool;
  pool.pool = 0x42;
  pool.device = 0;
  pool.reserved_bytes = 64 * kMiB;
  pool.used_bytes = 40 * kMiB;
  traced.trace.add(pool, ActivityBuilder::kWriter);
  pool.reserved_bytes = 32 * kMiB;
  traced.trace.add(pool, ActivityBuilder::kWriter);
  PoolSample sample;
  sample.pool = 0x42;
  sample.device = 0;
  sample.reserved_current = 64 * kMiB;
  sample.reserved_high = 64 * kMiB;
  traced.trace.add(sample, 0);
  const Json row = traced.report().at("coverage").at("pools")[0];
  CHECK(row.at("records") == 2);
  CHECK(row.at("reserved_peak_bytes") == 64 * kMiB);
  CHECK(row.at("used_peak_bytes") == 40 * kMiB);
  CHECK(row.at("sampled_reserved_peak_bytes") == 64 * kMiB);
}
