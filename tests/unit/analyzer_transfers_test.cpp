// SPDX-License-Identifier: Apache-2.0
// Copies and memsets get their direction from the addresses, not from the function's name.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer_transfers_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

Json only_copy(TraceBuilder& trace) {
  const Json rows = report_of(trace).at("transfers").at("by_kind");
  REQUIRE(rows.size() == 1);
  return rows[0];
}

constexpr std::uint64_t kDeviceAddress = 0x700010000000;
constexpr std::uint64_t kPinnedAddress = 0x7f0000100000;
constexpr std::uint64_t kHostAddress = 0x5500'0000'1000;

}  // namespace

TEST_CASE("a copy called device-to-device from pinned memory goes up", "[unit]") {
  TraceBuilder trace;
  trace.allocate(kDeviceAddress, 4 * kMiB);
  trace.allocate(kPinnedAddress, 4 * kMiB, MemoryKind::kPinned);
  trace.copy(kDeviceAddress + 4096, EndType::kDevice, kPinnedAddress + 64, EndType::kDevice, 1000,
             {.flags = kFlagAsynchronous});
  const Json row = only_copy(trace);
  CHECK(row.at("direction") == "host_to_device");
  CHECK(row.at("source_memory") == "pinned");
  CHECK(row.at("destination_memory") == "device");
  CHECK(row.at("asynchronous") == true);
  CHECK(row.at("bytes") == 1000);
  CHECK(row.at("host_time_ns") == 5);
}

TEST_CASE("single copies are told apart by size, time and line", "[unit]") {
  TraceBuilder trace;
  trace.allocate(kDeviceAddress, 4 * kMiB);
  for (const std::uint64_t i : {2, 1, 4, 3}) {
    const std::uint64_t start = TraceBuilder::kFirstTick + i * 1'000'000;
    trace.copy(kDeviceAddress, EndType::kDevice, kHostAddress, EndType::kHost, i * 1000,
               {.start = start, .end = start + 10 * i, .caller = i < 3 ? 0x1000U : 0x2000U});
  }
  const Json transfers = report_of(trace).at("transfers");
  REQUIRE(transfers.at("by_kind").size() == 1);
  const Json row = transfers.at("by_kind")[0];
  CHECK(row.at("min_bytes") == 1000);
  CHECK(row.at("mean_bytes") == 2500);
  CHECK(row.at("max_bytes") == 4000);
  CHECK(row.at("min_host_ns") == 10);
  CHECK(row.at("mean_host_ns") == 25);
  CHECK(row.at("max_host_ns") == 40);
  CHECK(row.at("max_gpu_ns").is_null());
  const Json& sites = transfers.at("sites");
  std::uint64_t bytes = 0;
  for (const Json& site : sites) bytes += site.at("bytes").get<std::uint64_t>();
  CHECK(bytes == 10'000);
}

TEST_CASE("of very many lines that copy the last row has the rest", "[unit]") {
  TraceBuilder trace;
  trace.module(0x400000, 0x500000, "/opt/program");
  trace.allocate(kDeviceAddress, 4 * kMiB);
  for (std::uint64_t i = 0; i < 205; ++i) {
    trace.copy(kDeviceAddress, EndType::kDevice, kHostAddress, EndType::kHost, 1000 - i,
               {.caller = 0x400000 + i});
  }
  const Json sites = report_of(trace).at("transfers").at("sites");
  REQUIRE(sites.size() == 201);
  CHECK(sites[0].at("bytes") == 1000);
  CHECK(sites[199].at("bytes") == 801);
  CHECK(sites[200].at("owner") == "other");
  CHECK(sites[200].at("count") == 5);
  CHECK(sites[200].at("bytes") == 800 + 799 + 798 + 797 + 796);
  CHECK(sites[200].at("direction").is_null());
}

TEST_CASE("memory is pinned only as long as it is registered", "[unit]") {
  TraceBuilder trace;
  trace.allocate(kDeviceAddress, 4 * kMiB);
  trace.allocate(kHostAddress, 4 * kMiB, MemoryKind::kRegistered);
  trace.copy(kHostAddress, EndType::kHost, kDeviceAddress, EndType::kDevice, 10);
  trace.free(kHostAddress, MemoryKind::kRegistered);
  trace.copy(kHostAddress, EndType::kHost, kDeviceAddress, EndType::kDevice, 30);
  const Json rows = report_of(trace).at("transfers").at("by_kind");
  CHECK(row_where(rows, {{"destination_memory", "pinned"}}).at("bytes") == 10);
  CHECK(row_where(rows, {{"destination_memory", "pageable"}}).at("bytes") == 30);
}

TEST_CASE("the direction of cuMemcpy follows from what lies at its addresses", "[unit]") {
  TraceBuilder trace;
  trace.allocate(kDeviceAddress, 4 * kMiB);
  trace.copy(kHostAddress, EndType::kUnified, kDeviceAddress, EndType::kUnified, 8);
  const Json row = only_copy(trace);
  CHECK(row.at("direction") == "device_to_host");
  CHECK(row.at("destination_memory") == "pageable");
}

TEST_CASE("a copy between two devices is a peer copy", "[unit]") {
  TraceBuilder trace;
  trace.context(2, 1);
  trace.allocate(kDeviceAddress, 4 * kMiB);
  trace.allocate(kDeviceAddress + 64 * kMiB, 4 * kMiB, MemoryKind::kDevice, {.context = 2});
  trace.copy(kDeviceAddress, EndType::kDevice, kDeviceAddress + 64 * kMiB, EndType::kDevice, 8);
  CHECK(only_copy(trace).at("direction") == "peer");
}

TEST_CASE("the parts of a batch are copies of one call", "[unit]") {
  TraceBuilder trace;
  trace.allocate(kDeviceAddress, 4 * kMiB);
  for (std::uint32_t part = 0; part < 3; ++part) {
    Copy copy;
    copy.destination = kDeviceAddress + part;
    copy.destination_type = EndType::kUnified;
    copy.source = kHostAddress + part;
    copy.source_type = EndType::kUnified;
    copy.bytes = 7;
    copy.part = part;
    trace.add_call(copy, {});
  }
  const Json row = only_copy(trace);
  CHECK(row.at("count") == 3);
  CHECK(row.at("bytes") == 21);
  CHECK(row.at("host_time_ns") == 5);
}

TEST_CASE("copies that failed or were captured did not happen", "[unit]") {
  TraceBuilder trace;
  trace.copy(kHostAddress, EndType::kHost, kHostAddress, EndType::kHost, 8, {.result = 1});
  trace.copy(kHostAddress, EndType::kHost, kHostAddress, EndType::kHost, 8,
             {.flags = kFlagCaptured});
  CHECK(report_of(trace).at("transfers").at("by_kind").empty());
  trace.copy(kHostAddress, EndType::kHost, kHostAddress, EndType::kHost, 8);
  const Json rows = report_of(trace).at("transfers").at("by_kind");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].at("bytes") == 8);
}

TEST_CASE("copies count under the name that the user called", "[unit]") {
  TraceBuilder trace;
  trace.api(3, "cuMemcpyHtoD_v2", "cudaMemcpy");
  trace.api(4, "cuMemcpyHtoD_v2_ptds", "cudaMemcpy");
  trace.module(0x1000, 0x2000, "/usr/lib/libcudart.so.13");
  trace.requester(0x1800);
  trace.allocate(kDeviceAddress, 4 * kMiB);
  for (const std::uint16_t api : {std::uint16_t{3}, std::uint16_t{4}}) {
    trace.copy(kDeviceAddress, EndType::kDevice, kHostAddress, EndType::kHost, 8,
               {.flags = kFlagByPointer, .caller = 0x1500, .api = api});
  }
  const Json row = only_copy(trace);
  CHECK(row.at("api") == "cudaMemcpy");
  CHECK(row.at("count") == 2);
}

TEST_CASE("sets are counted by what they fill", "[unit]") {
  TraceBuilder trace;
  trace.allocate(kDeviceAddress, 4 * kMiB, MemoryKind::kManaged);
  Set set;
  set.destination = kDeviceAddress + 100;
  set.bytes = 4096;
  trace.add_call(set, {});
  const Json row = report_of(trace).at("transfers").at("sets")[0];
  CHECK(row.at("destination_memory") == "managed");
  CHECK(row.at("bytes") == 4096);
}

}  // namespace gpumemtrace::analyzer_transfers_test
