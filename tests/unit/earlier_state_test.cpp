// SPDX-License-Identifier: Apache-2.0
// A replay that goes on from the memory that PyTorch's allocator had when recording began. Its
// rules: requests above 1 MiB and below 10 MiB take the smallest free block of a segment of 20 MiB
// that fits, and leave a rest of more than 1 MiB free.
#include <optional>
#include <string>

#include "analyzer/replay/what_if.hpp"
#include "tests/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/trace_builder.hpp"

namespace gpumemtrace::analyzer::replay::earlier_state_test {
namespace {

constexpr std::uint64_t kFirst = 0x7000'0000'0000;
constexpr std::uint64_t kSecond = 0x7100'0000'0000;

class Run {
 public:
  void earlier_segment(std::uint64_t address, std::uint64_t bytes, std::uint64_t pool = 0) {
    trace::Allocation record;
    record.address = address;
    record.bytes = bytes;
    record.memory = trace::MemoryKind::kDevice;
    record.pool = pool;
    trace_.add_call(record, {.flags = trace::kFlagEarlier});
    reserved_ += bytes;
  }
  void earlier_block(std::uint64_t address, std::uint64_t bytes) {
    report(address, static_cast<std::int64_t>(bytes), trace::kFlagEarlier);
  }
  void map(std::uint64_t address, std::uint64_t bytes) {
    trace::Allocation physical;
    physical.address = ++handle_;
    physical.bytes = bytes;
    physical.memory = trace::MemoryKind::kPhysical;
    trace_.add_call(physical, {});
    trace_.map(trace::MappingOperation::kMap, address, bytes, handle_);
    reserved_ += bytes;
  }
  void new_segment(std::uint64_t address, std::uint64_t bytes) {
    trace_.allocate(address, bytes);
    reserved_ += bytes;
  }
  // Hands out a block of `bytes` for a request of `requested_bytes`; 0 = for one of the same size.
  void hand_out(std::uint64_t address, std::uint64_t bytes, std::uint64_t requested_bytes = 0) {
    report(address, static_cast<std::int64_t>(bytes), 0, requested_bytes);
  }
  void take_back(std::uint64_t address, std::uint64_t bytes) {
    report(address, -static_cast<std::int64_t>(bytes));
  }
  tests::TraceBuilder& trace() { return trace_; }

  DeviceAnswer answer() {
    const tests::TemporaryFolder folder;
    return what_if(trace::TraceFile(trace_.write(folder.path())), {}).devices.at(0);
  }

 private:
  void report(std::uint64_t address, std::int64_t bytes, std::uint16_t flags = 0,
              std::uint64_t requested_bytes = 0) {
    allocated_ += static_cast<std::uint64_t>(bytes);
    trace::Block block;
    block.record.flags = flags | trace::kFlagStream;
    block.address = address;
    block.bytes = bytes;
    if (bytes > 0) block.requested = static_cast<std::uint64_t>(bytes);
    if (requested_bytes != 0) block.requested = requested_bytes;
    block.allocated = allocated_;
    block.reserved_bytes = reserved_;
    block.device_type = trace::kCudaDeviceType;
    block.device = 0;
    trace_.add(block);
  }

  tests::TraceBuilder trace_;
  std::uint64_t allocated_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t handle_ = 0;
};

// A segment of 20 MiB with 4 MiB used, 4 free, 4 used, 8 free.
void begin_with_half_a_segment(Run& run) {
  run.earlier_segment(kFirst, 20 * kMib);
  run.earlier_block(kFirst, 4 * kMib);
  run.earlier_block(kFirst + 8 * kMib, 4 * kMib);
}

void check_proven(const DeviceAnswer& answer, std::uint64_t reserved_peak_bytes) {
  CHECK(answer.proof.first_mismatch == "");
  CHECK(answer.rows.front().basis == Basis::kReplayed);
  CHECK(answer.rows.front().reserved_peak_bytes == reserved_peak_bytes);
}

}  // namespace

TEST_CASE("requests are placed around what was there before the recording", "[unit]") {
  Run run;
  begin_with_half_a_segment(run);
  run.hand_out(kFirst + 4 * kMib, 4 * kMib, 3 * kMib);
  run.take_back(kFirst, 4 * kMib);
  run.hand_out(kFirst, 4 * kMib);
  run.new_segment(kSecond, 20 * kMib);
  run.hand_out(kSecond, 9 * kMib);
  const DeviceAnswer answer = run.answer();
  check_proven(answer, 40 * kMib);
  CHECK(answer.live_peak_bytes == 20 * kMib);
  const Row& other = answer.rows.at(1);
  CHECK(other.basis == Basis::kEstimated);
  CHECK(other.reason.value_or("").find("before the recorded part began") != std::string::npos);
}

TEST_CASE("a place that the earlier blocks do not allow ends the proof", "[unit]") {
  Run run;
  begin_with_half_a_segment(run);
  run.hand_out(kFirst + 12 * kMib, 3 * kMib);
  const DeviceAnswer answer = run.answer();
  CHECK(answer.proof.first_mismatch.find("the rules place") != std::string::npos);
  CHECK(answer.rows.front().basis == Basis::kEstimated);
}

TEST_CASE("an earlier block outside of all segments ends the proof", "[unit]") {
  Run run;
  begin_with_half_a_segment(run);
  SECTION("in no memory") { run.earlier_block(kSecond, kMib); }
  SECTION("over a used one") { run.earlier_block(kFirst + 2 * kMib, kMib); }
  SECTION("over the end") { run.earlier_block(kFirst + 16 * kMib, 8 * kMib); }
  run.hand_out(kFirst + 4 * kMib, 3 * kMib);
  CHECK(run.answer().proof.first_mismatch.find("no known segment") != std::string::npos);
}

TEST_CASE("the free memory of an earlier private pool is for its pool alone", "[unit]") {
  Run run;
  begin_with_half_a_segment(run);
  run.earlier_segment(kFirst + 64 * kMib, 20 * kMib, 1);
  run.new_segment(kSecond, 20 * kMib);
  run.hand_out(kSecond, 9 * kMib);
  check_proven(run.answer(), 60 * kMib);
}

TEST_CASE("the free pages of an earlier expandable segment are taken before others", "[unit]") {
  Run run;
  trace::Mapping space;
  space.operation = trace::MappingOperation::kReserve;
  space.address = kFirst;
  space.bytes = 1024 * kMib;
  space.location = 0;
  run.trace().add_call(space, {.flags = trace::kFlagEarlier});
  run.map(kFirst, 20 * kMib);
  run.map(kFirst + 20 * kMib, 20 * kMib);
  run.hand_out(kFirst, 30 * kMib);
  check_proven(run.answer(), 40 * kMib);
}

TEST_CASE("an earlier expandable segment grows behind what was mapped", "[unit]") {
  Run run;
  run.trace().map(trace::MappingOperation::kReserve, kFirst, 1024 * kMib);
  run.map(kFirst, 20 * kMib);
  run.map(kFirst + 20 * kMib, 20 * kMib);
  run.earlier_block(kFirst, 36 * kMib);
  run.hand_out(kFirst + 36 * kMib, 4 * kMib);
  run.map(kFirst + 40 * kMib, 20 * kMib);
  run.hand_out(kFirst + 40 * kMib, 3 * kMib);
  check_proven(run.answer(), 60 * kMib);
}

}  // namespace gpumemtrace::analyzer::replay::earlier_state_test
