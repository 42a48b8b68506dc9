// SPDX-License-Identifier: Apache-2.0
// Programs without PyTorch, replayed under PyTorch's allocator. Its rules: requests of up to 1 MiB
// lie in segments of 2 MiB, larger ones of less than 10 MiB in segments of 20 MiB.
#include "analyzer/replay/what_if.hpp"

#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/trace_builder.hpp"

namespace gpumemtrace::analyzer::replay::what_if_test {
namespace {

using tests::TraceBuilder;

constexpr std::uint64_t kAddress = 0x7000'0000'0000;

std::vector<DeviceAnswer> ask(TraceBuilder& trace, const Question& question = {}) {
  const tests::TemporaryFolder folder;
  return what_if(trace::TraceFile(trace.write(folder.path())), question).devices;
}

Row row_of(const DeviceAnswer& device, const std::string& policy) {
  for (const Row& row : device.rows) {
    if (row.policy == policy) return row;
  }
  FAIL("no row has the policy " + policy);
  return device.rows.front();
}

void sample(TraceBuilder& trace, std::uint64_t free_bytes) {
  trace::MemorySample record;
  record.source = trace::SampleSource::kMemGetInfo;
  record.device = 0;
  record.total_bytes = 1024 * kMib;
  record.free_bytes = free_bytes;
  trace.add(record);
}

}  // namespace

TEST_CASE("calls of the driver are requests where there is no PyTorch", "[unit]") {
  TraceBuilder trace;
  sample(trace, 1000 * kMib);
  for (std::uint64_t i = 0; i < 10; ++i) {
    trace.allocate(kAddress, 4 * kMib);
    trace.allocate(kAddress + 16 * kMib, kMib);
    trace.allocate(kAddress + 32 * kMib, 4 * kMib, trace::MemoryKind::kStreamOrdered);
    trace.free(kAddress);
    trace.free(kAddress + 16 * kMib);
    trace.free(kAddress + 32 * kMib, trace::MemoryKind::kStreamOrdered);
  }
  const std::vector<DeviceAnswer> devices = ask(trace);
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].live_peak_bytes == 9 * kMib);
  const Row& driver = devices[0].rows.front();
  CHECK_FALSE(driver.options.has_value());
  CHECK(driver.basis == Basis::kBracket);
  CHECK(driver.low_bytes == 9 * kMib);
  CHECK_FALSE(driver.reserved_peak_bytes.has_value());
  CHECK(driver.segment_calls == 60u);
  const Row pool = row_of(devices[0], "default");
  CHECK(pool.basis == Basis::kReplayed);
  CHECK(pool.reserved_peak_bytes == 22 * kMib);
  CHECK(pool.segment_calls == 2u);
  CHECK(pool.raised == 0u);
}

TEST_CASE("whether a pool of the program's calls had room is said where it is known", "[unit]") {
  TraceBuilder trace;
  trace.allocate(kAddress, 4 * kMib);
  SECTION("nobody told what else lies on the device") {}
  SECTION("it would have been more than the device has") { sample(trace, 5 * kMib); }
  const std::vector<DeviceAnswer> devices = ask(trace);
  CHECK(row_of(devices.at(0), "default").reserved_peak_bytes == 20 * kMib);
  CHECK_FALSE(row_of(devices.at(0), "default").raised.has_value());
}

TEST_CASE("a program that the driver refused memory is estimated", "[unit]") {
  TraceBuilder trace;
  sample(trace, 1000 * kMib);
  trace.allocate(kAddress, 4 * kMib);
  trace.allocate(0, 2048 * kMib, trace::MemoryKind::kDevice, {.result = trace::kCudaOutOfMemory});
  const Row pool = row_of(ask(trace).at(0), "default");
  CHECK(pool.basis == Basis::kEstimated);
  CHECK(pool.reason.value_or("").find("refused") != std::string::npos);
  CHECK_FALSE(pool.raised.has_value());
}

TEST_CASE("what a context's end takes is free for what follows", "[unit]") {
  TraceBuilder trace;
  trace.context(2, 0, false);
  sample(trace, 1000 * kMib);
  trace.allocate(kAddress, 16 * kMib);
  std::uint64_t reserved = 16 * kMib;
  SECTION("its own") { trace.context_call(trace::ContextOperation::kResetPrimary, 1); }
  SECTION("another's takes nothing") {
    trace.context_call(trace::ContextOperation::kDestroy, 2);
    reserved += 16 * kMib;
  }
  trace.allocate(kAddress + 64 * kMib, 16 * kMib);
  const std::vector<DeviceAnswer> devices = ask(trace);
  CHECK(devices.at(0).live_peak_bytes == reserved);
  const Row pool = row_of(devices.at(0), "default");
  CHECK(pool.basis == Basis::kReplayed);
  CHECK(pool.reserved_peak_bytes == reserved);
  CHECK(pool.raised == 0u);
}

TEST_CASE("calls of the driver below PyTorch are no requests", "[unit]") {
  TraceBuilder trace;
  trace.allocate(kAddress, 20 * kMib);
  trace::Block block;
  block.address = kAddress;
  block.bytes = 2 * kMib;
  block.allocated = 2 * kMib;
  block.reserved_bytes = 20 * kMib;
  block.device_type = trace::kCudaDeviceType;
  block.device = 0;
  trace.add(block);
  const std::vector<DeviceAnswer> devices = ask(trace);
  REQUIRE(devices.size() == 1);
  CHECK_FALSE(devices[0].is_without_torch);
  CHECK(devices[0].live_peak_bytes == 2 * kMib);
}

TEST_CASE("a gate is about PyTorch's settings", "[unit]") {
  TraceBuilder trace;
  trace.allocate(kAddress, 4 * kMib);
  Question question;
  question.only_recorded = true;
  CHECK(ask(trace, question).empty());
}

}  // namespace gpumemtrace::analyzer::replay::what_if_test
