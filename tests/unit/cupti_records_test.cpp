// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cupti_records.hpp"

#include <cstring>
#include <vector>

#include "cupti/abi.hpp"
#include "cupti/records.hpp"
#include "tests/catch.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::cupti::cupti_records_test {
namespace {

using test_support::call_record;
using test_support::copy_record;
using test_support::CuptiRecord;

std::vector<std::uint8_t> written;
bool has_room = true;

std::uint64_t fixed_ticks() { return 77; }

bool write(const void* record, std::size_t bytes, const char*, std::size_t) {
  if (!has_room) return false;
  const auto* from = static_cast<const std::uint8_t*>(record);
  written.assign(from, from + bytes);
  return true;
}

constexpr Recorder kRecorder = {fixed_ticks, write, nullptr};

TakeOver everything(std::uint32_t version = 130001) {
  TakeOver what;
  for (const Kind kind :
       {Kind::kMemcpy, Kind::kMemcpy2, Kind::kMemset, Kind::kMemory2, Kind::kMemoryPool,
        Kind::kUnifiedMemoryCounter, Kind::kOverhead, Kind::kConcurrentKernel}) {
    what.kinds.add(kind);
  }
  what.calls = true;
  what.version = version;
  what.library = 3;
  return what;
}

// The only record that take_over() wrote for `from`; it must be of type Record.
template <class Record>
Record taken(const CuptiRecord& from, const TakeOver& what = everything()) {
  written.clear();
  REQUIRE(take_over(from.raw(), what, kRecorder) == Taken::kWritten);
  REQUIRE(written.size() == sizeof(Record));
  Record record;
  std::memcpy(&record, written.data(), sizeof record);
  CHECK(record.record.kind == trace::kind_of<Record>());
  CHECK(record.record.time == 77);
  CHECK(record.library == 3);
  return record;
}

CuptiRecord copy_of_every_member(std::size_t bytes) {
  using Layout = layouts::Memcpy;
  CuptiRecord record(Kind::kMemcpy, bytes);
  record.put(Layout::kCopyKind, std::uint8_t{1})
      .put(Layout::kSourceKind, std::uint8_t{2})
      .put(Layout::kDestinationKind, std::uint8_t{3})
      .put(Layout::kFlags, std::uint8_t{0xff})
      .put(Layout::kBytesCopied, std::uint64_t{1} << 40)
      .put(Layout::kStart, std::uint64_t{100})
      .put(Layout::kEnd, std::uint64_t{200})
      .put(Layout::kDevice, std::uint32_t{4})
      .put(Layout::kContext, std::uint32_t{5})
      .put(Layout::kStream, std::uint32_t{6})
      .put(Layout::kCorrelation, std::uint32_t{7})
      .put(Layout::kGraphNode, std::uint64_t{8});
  return record;
}

TEST_CASE("a copy's record is read alike in every version's length", "[unit]") {
  for (const std::size_t bytes : {std::size_t{80}, std::size_t{88}, std::size_t{96}}) {
    const auto copy = taken<trace::ActivityCopy>(copy_of_every_member(bytes));
    CHECK(copy.copy_kind == 1);
    CHECK(copy.source_kind == 2);
    CHECK(copy.destination_kind == 3);
    CHECK(copy.is_asynchronous == 1);
    CHECK(copy.bytes == std::uint64_t{1} << 40);
    CHECK(copy.start == 100);
    CHECK(copy.end == 200);
    CHECK(copy.device == 4);
    CHECK(copy.context == 5);
    CHECK(copy.stream == 6);
    CHECK(copy.correlation == 7);
    CHECK(copy.graph_node == 8);
    CHECK(copy.source_device == -1);
    CHECK(copy.destination_device == -1);
  }
}

// The layout that a record kind has from one version of CUPTI on, from CUPTI's headers and
// documentation: that version (cuptiGetVersion), the size, and the offsets of the start time and of
// the correlation id (0 = the record has none).
struct Generation {
  const char* name;
  Kind kind;
  std::uint32_t since;
  std::size_t bytes;
  std::size_t start;
  std::size_t correlation;
};
constexpr Generation kGenerations[] = {
    {"Memcpy5", Kind::kMemcpy, 18, 88, 16, 44},
    {"Memcpy6", Kind::kMemcpy, 26, 96, 16, 44},
    {"Memcpy7", Kind::kMemcpy, 130400, 112, 16, 44},
    {"MemcpyPtoP4", Kind::kMemcpy2, 18, 96, 16, 60},
    {"Memset4", Kind::kMemset, 18, 88, 16, 44},
    {"Memset5", Kind::kMemset, 130400, 104, 16, 44},
    {"Memory3", Kind::kMemory2, 18, 120, 32, 12},
    {"Memory4", Kind::kMemory2, 24, 128, 32, 12},
    {"MemoryPool2", Kind::kMemoryPool, 18, 72, 56, 12},
    {"MemoryPool3", Kind::kMemoryPool, 130000, 80, 56, 12},
    {"UnifiedMemoryCounter2", Kind::kUnifiedMemoryCounter, 18, 64, 16, 0},
    {"UnifiedMemoryCounter3", Kind::kUnifiedMemoryCounter, 26, 104, 16, 0},
    {"Overhead", Kind::kOverhead, 18, 40, 24, 0},
    {"Overhead3", Kind::kOverhead, 24, 56, 24, 0},
    {"Kernel8", Kind::kConcurrentKernel, 18, 200, 16, 92},
    {"Kernel9", Kind::kConcurrentKernel, 19, 208, 16, 92},
    {"Kernel10", Kind::kConcurrentKernel, 130000, 216, 16, 92},
    {"API", Kind::kDriver, 18, 40, 8, 32},
    {"API", Kind::kRuntime, 18, 40, 8, 32},
};

TEST_CASE("every generation of a record is taken over, from CUDA 11.8 to 13.4", "[unit]") {
  constexpr std::size_t kFunctionOfCall = 4;
  constexpr std::uint32_t kCudaMemcpy = 31;
  constexpr std::uint32_t kCuMemcpyHtoD = 276;
  for (const Generation& generation : kGenerations) {
    INFO(generation.name);
    CuptiRecord record(generation.kind, generation.bytes);
    record.put(generation.start, std::uint64_t{0x0123456789abcdef});
    if (generation.correlation != 0) record.put(generation.correlation, std::uint32_t{77});
    if (generation.kind == Kind::kDriver) record.put(kFunctionOfCall, kCuMemcpyHtoD);
    if (generation.kind == Kind::kRuntime) record.put(kFunctionOfCall, kCudaMemcpy);
    CHECK(start_of(record.raw()) == 0x0123456789abcdef);
    CHECK(correlation_of(record.raw()) == (generation.correlation == 0 ? 0 : 77));
    CHECK(take_over(record.raw(), everything(generation.since), kRecorder) == Taken::kWritten);
  }
}

TEST_CASE("how many copies a record stands for is read where the version says it", "[unit]") {
  CuptiRecord record = copy_of_every_member(96);
  record.put(layouts::Memcpy::kCopyCount, std::uint64_t{9});
  CHECK(taken<trace::ActivityCopy>(record).copies == 9);
  CHECK(taken<trace::ActivityCopy>(record, everything(26)).copies == 9);
  CHECK(taken<trace::ActivityCopy>(record, everything(24)).copies == 0);
  CHECK(taken<trace::ActivityCopy>(copy_of_every_member(88)).copies == 0);
}

TEST_CASE("a copy between devices names both", "[unit]") {
  using Layout = layouts::MemcpyPeer;
  const auto record = CuptiRecord(Kind::kMemcpy2, 88)
                          .put(Layout::kBytesCopied, std::uint64_t{10})
                          .put(Layout::kDevice, std::uint32_t{1})
                          .put(Layout::kSourceDevice, std::uint32_t{2})
                          .put(Layout::kDestinationDevice, std::uint32_t{3})
                          .put(Layout::kCorrelation, std::uint32_t{4})
                          .put(Layout::kGraphNode, std::uint64_t{5});
  const auto copy = taken<trace::ActivityCopy>(record);
  CHECK(copy.bytes == 10);
  CHECK(copy.device == 1);
  CHECK(copy.source_device == 2);
  CHECK(copy.destination_device == 3);
  CHECK(copy.correlation == 4);
  CHECK(copy.graph_node == 5);
  CHECK(copy.is_asynchronous == 0);
}

TEST_CASE("a set's record is read", "[unit]") {
  using Layout = layouts::Memset;
  const auto set = taken<trace::ActivitySet>(CuptiRecord(Kind::kMemset, 88)
                                                 .put(Layout::kValue, std::uint32_t{1})
                                                 .put(Layout::kBytesSet, std::uint64_t{2})
                                                 .put(Layout::kMemoryKind, std::uint16_t{3})
                                                 .put(Layout::kCorrelation, std::uint32_t{4})
                                                 .put(Layout::kEnd, std::uint64_t{5}));
  CHECK(set.value == 1);
  CHECK(set.bytes == 2);
  CHECK(set.memory_kind == 3);
  CHECK(set.correlation == 4);
  CHECK(set.end == 5);
}

TEST_CASE("an allocation's record is read", "[unit]") {
  using Layout = layouts::Memory;
  for (const std::size_t bytes : {std::size_t{112}, std::size_t{120}, std::size_t{128}}) {
    const auto memory =
        taken<trace::ActivityMemory>(CuptiRecord(Kind::kMemory2, bytes)
                                         .put(Layout::kOperation, std::uint32_t{1})
                                         .put(Layout::kMemoryKind, std::uint32_t{3})
                                         .put(Layout::kAddress, std::uint64_t{0x7000})
                                         .put(Layout::kBytesAllocated, std::uint64_t{64})
                                         .put(Layout::kTimestamp, std::uint64_t{9})
                                         .put(Layout::kIsAsynchronous, std::uint32_t{1})
                                         .put(Layout::kPoolType, std::uint32_t{1})
                                         .put(Layout::kPool, std::uint64_t{0x8000}));
    CHECK(memory.operation == 1);
    CHECK(memory.memory_kind == 3);
    CHECK(memory.address == 0x7000);
    CHECK(memory.bytes == 64);
    CHECK(memory.timestamp == 9);
    CHECK(memory.is_asynchronous == 1);
    CHECK(memory.pool_type == 1);
    CHECK(memory.pool == 0x8000);
  }
}

TEST_CASE("a pool's, a migration's, an overhead's and a kernel's record are read", "[unit]") {
  const auto pool =
      taken<trace::ActivityPool>(CuptiRecord(Kind::kMemoryPool, 80)
                                     .put(layouts::MemoryPool::kPool, std::uint64_t{1})
                                     .put(layouts::MemoryPool::kReservedBytes, std::uint64_t{2})
                                     .put(layouts::MemoryPool::kUsedBytes, std::uint64_t{3}));
  CHECK(pool.pool == 1);
  CHECK(pool.reserved_bytes == 2);
  CHECK(pool.used_bytes == 3);
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{104}}) {
    const auto managed =
        taken<trace::ActivityManaged>(CuptiRecord(Kind::kUnifiedMemoryCounter, bytes)
                                          .put(layouts::ManagedCounter::kCounter, std::uint32_t{2})
                                          .put(layouts::ManagedCounter::kValue, std::uint64_t{4096})
                                          .put(layouts::ManagedCounter::kSource, std::int32_t{-1}));
    CHECK(managed.counter == 2);
    CHECK(managed.value == 4096);
    CHECK(managed.source == -1);
  }
  const auto overhead =
      taken<trace::ActivityOverhead>(CuptiRecord(Kind::kOverhead, 40)
                                         .put(layouts::Overhead::kOverhead, std::uint32_t{1})
                                         .put(layouts::Overhead::kEnd, std::uint64_t{2}));
  CHECK(overhead.overhead == 1);
  CHECK(overhead.end == 2);
  const auto kernel =
      taken<trace::ActivityKernel>(CuptiRecord(Kind::kConcurrentKernel, 216)
                                       .put(layouts::Kernel::kCorrelation, std::uint32_t{1})
                                       .put(layouts::Kernel::kGraphNode, std::uint64_t{2}));
  CHECK(kernel.correlation == 1);
  CHECK(kernel.graph_node == 2);
}

TEST_CASE("only calls that copy, set or launch graphs are taken over", "[unit]") {
  constexpr std::uint32_t kCuMemcpyHtoD = 276;
  constexpr std::uint32_t kCuMemAlloc = 243;
  constexpr std::uint32_t kCudaGraphLaunch = 311;
  const auto call = taken<trace::ActivityCall>(call_record(Kind::kDriver, 5, 100, kCuMemcpyHtoD));
  CHECK(call.correlation == 5);
  CHECK(call.start == 100);
  CHECK(call.function == kCuMemcpyHtoD);
  CHECK(call.domain == trace::ActivityDomain::kDriver);
  const auto launch =
      taken<trace::ActivityCall>(call_record(Kind::kRuntime, 6, 100, kCudaGraphLaunch));
  CHECK(launch.domain == trace::ActivityDomain::kRuntime);
  CHECK(take_over(call_record(Kind::kDriver, 5, 100, kCuMemAlloc).raw(), everything(), kRecorder) ==
        Taken::kNotOurs);
  TakeOver without_calls = everything();
  without_calls.calls = false;
  CHECK(take_over(call_record(Kind::kDriver, 5, 100, kCuMemcpyHtoD).raw(), without_calls,
                  kRecorder) == Taken::kNotOurs);
}

TEST_CASE("kinds that are not collected, unknown kinds and cut records are left", "[unit]") {
  TakeOver copies_alone;
  copies_alone.kinds.add(Kind::kMemcpy);
  CHECK(take_over(CuptiRecord(Kind::kMemset, 88).raw(), copies_alone, kRecorder) ==
        Taken::kNotOurs);
  CHECK(take_over(CuptiRecord(static_cast<Kind>(51), 88).raw(), everything(), kRecorder) ==
        Taken::kNotOurs);
  CHECK(take_over(CuptiRecord(static_cast<Kind>(5000), 88).raw(), everything(), kRecorder) ==
        Taken::kNotOurs);
  CHECK(take_over(CuptiRecord(Kind::kMemcpy, 72).raw(), everything(), kRecorder) ==
        Taken::kNotOurs);
  CHECK(take_over(CuptiRecord(Kind::kDriver, 8).raw(), everything(), kRecorder) == Taken::kNotOurs);
}

TEST_CASE("a record for which the ring has no room is said to be lost", "[unit]") {
  has_room = false;
  CHECK(take_over(copy_of_every_member(96).raw(), everything(), kRecorder) == Taken::kNoRoom);
  has_room = true;
}

TEST_CASE("a walk gives each record with the length up to the next", "[unit]") {
  std::vector<std::uint8_t> buffer;
  for (const CuptiRecord& record :
       {copy_record(1, 10, 64), call_record(Kind::kRuntime, 1, 9, 31), copy_record(2, 20, 65)}) {
    buffer.insert(buffer.end(), record.bytes().begin(), record.bytes().end());
  }
  Functions functions;
  functions.cuptiActivityGetNextRecord = test_support::next_record;
  const auto sizes = [&](std::size_t valid_bytes) {
    std::vector<std::size_t> found;
    Walk walk(functions, buffer.data(), valid_bytes);
    for (RawRecord record; walk.next(record);) found.push_back(record.size);
    return found;
  };
  CHECK(sizes(buffer.size()) == std::vector<std::size_t>{96, 40, 96});
  CHECK(sizes(buffer.size() - 1) == std::vector<std::size_t>{96, 40, 95});
  CHECK(sizes(0).empty());
}

TEST_CASE("a walk ends at a record that CUPTI itself does not know", "[unit]") {
  std::vector<std::uint8_t> buffer = copy_record(1, 10, 64).bytes();
  const CuptiRecord unknown(static_cast<Kind>(5000), 32);
  buffer.insert(buffer.end(), unknown.bytes().begin(), unknown.bytes().end());
  const std::vector<std::uint8_t> after = copy_record(2, 10, 64).bytes();
  buffer.insert(buffer.end(), after.begin(), after.end());
  Functions functions;
  functions.cuptiActivityGetNextRecord = test_support::next_record;
  Walk walk(functions, buffer.data(), buffer.size());
  RawRecord record;
  REQUIRE(walk.next(record));
  CHECK(record.size == 96);
  REQUIRE(walk.next(record));
  CHECK(kind_of(record) == static_cast<Kind>(5000));
  CHECK_FALSE(walk.next(record));
}

}  // namespace
}  // namespace gpumemtrace::cupti::cupti_records_test
