// SPDX-License-Identifier: Apache-2.0
// Handles that a program opened and never released: leaks.handles[].
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer_handles_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

Json handle_of(const Json& report, const char* kind) {
  return row_where(report.at("leaks").at("handles"), {{"kind", kind}});
}

std::size_t handle_count(const TraceBuilder& trace) {
  TraceBuilder copy = trace;
  return report_of(copy).at("leaks").at("handles").size();
}

void import(TraceBuilder& trace, ImportOperation operation, std::uint64_t address,
            std::uint64_t bytes, std::uint64_t handle) {
  Import call;
  call.operation = operation;
  call.address = address;
  call.bytes = bytes;
  call.handle = handle;
  trace.add_call(call, {});
}

void pool(TraceBuilder& trace, PoolOperation operation, std::uint64_t handle) {
  Pool call;
  call.operation = operation;
  call.pool = handle;
  call.device = 0;
  trace.add_call(call, {});
}

}  // namespace

TEST_CASE("handles of physical memory are open until their last release", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x71, 4 * kMiB, MemoryKind::kPhysical, {.caller = 0x1234});
  trace.allocate(0x72, 6 * kMiB, MemoryKind::kPhysical, {.caller = 0x1234});
  trace.map(MappingOperation::kReserve, 0x500000000, 4 * kMiB);
  trace.map(MappingOperation::kMap, 0x500000000, 4 * kMiB, 0x71);
  trace.map(MappingOperation::kRetainHandle, 0x500000000, 0, 0x71);
  trace.free(0x71, MemoryKind::kPhysical);
  SECTION("one that was retained still is") {
    const Json row = handle_of(report_of(trace), "vmm");
    CHECK(row.at("count") == 2);
    CHECK(row.at("bytes") == 10 * kMiB);
    CHECK(row.at("device") == "d0");
    CHECK(row.at("first_time_ns").is_number());
  }
  SECTION("memory that is only mapped has none") {
    trace.free(0x71, MemoryKind::kPhysical);
    const Json report = report_of(trace);
    CHECK(handle_of(report, "vmm").at("bytes") == 6 * kMiB);
    CHECK(row_where(report.at("leaks").at("exit"), {{"kind", "vmm"}}).at("bytes") == 10 * kMiB);
  }
}

TEST_CASE("imported memory is open until it is closed, its size known or not", "[unit]") {
  TraceBuilder trace;
  import(trace, ImportOperation::kIpcOpen, 0x10000000, 2 * kMiB, 0);
  import(trace, ImportOperation::kExternalImport, 0, 0, 0x31);
  import(trace, ImportOperation::kPoolImportPointer, 0x20000000, kMiB, 0);
  trace.map(MappingOperation::kImport, 0, 0, 0x21);
  SECTION("open") {
    const Json report = report_of(trace);
    CHECK(handle_of(report, "ipc").at("bytes") == 3 * kMiB);
    CHECK(handle_of(report, "ipc").at("count") == 2);
    CHECK(handle_of(report, "external").at("bytes").is_null());
    CHECK(handle_of(report, "imported_vmm").at("bytes").is_null());
    CHECK(report.at("leaks").at("total_bytes") == 0);
  }
  SECTION("closed") {
    import(trace, ImportOperation::kIpcClose, 0x10000000, 0, 0);
    import(trace, ImportOperation::kExternalDestroy, 0, 0, 0x31);
    trace.free(0x20000000, MemoryKind::kStreamOrdered);
    trace.free(0x21, MemoryKind::kPhysical);
    const Json report = report_of(trace);
    CHECK(report.at("leaks").at("handles").empty());
    CHECK(loss_of(report, "unknown_frees") == 0);
  }
}

TEST_CASE("pools that the program made are open until it destroys them", "[unit]") {
  TraceBuilder trace;
  pool(trace, PoolOperation::kCreate, 0x42);
  pool(trace, PoolOperation::kGetDefault, 0x43);
  const Json row = handle_of(report_of(trace), "pool");
  CHECK(row.at("count") == 1);
  CHECK(row.at("bytes").is_null());
  pool(trace, PoolOperation::kDestroy, 0x42);
  CHECK(handle_count(trace) == 0);
}

TEST_CASE("executable graphs that allocate are open until they are destroyed", "[unit]") {
  TraceBuilder trace;
  trace.graph(GraphOperation::kAddAllocation, 0x77, 0, 0x10000000, 4 * kMiB);
  trace.graph(GraphOperation::kInstantiate, 0x77, 0x88);
  trace.graph(GraphOperation::kInstantiate, 0x78, 0x89);  // this executable graph allocates nothing
  trace.graph(GraphOperation::kDestroy, 0x77);
  const Json row = handle_of(report_of(trace), "graph_executable");
  CHECK(row.at("count") == 1);
  CHECK(row.at("bytes") == 4 * kMiB);
  trace.graph(GraphOperation::kDestroyExecutable, 0x88);
  CHECK(handle_count(trace) == 0);
}

}  // namespace gpumemtrace::analyzer_handles_test
