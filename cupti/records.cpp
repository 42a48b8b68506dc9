// SPDX-License-Identifier: Apache-2.0
#include "cupti/records.hpp"

#include <string.h>

#include <cstddef>

#include "cupti/copy_functions.hpp"
#include "cupti/layouts.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::cupti {
namespace {

// A member of the record; 0 if the record ends before it.
template <class Value>
Value member(const RawRecord& record, std::size_t offset) noexcept {
  Value value = 0;
  if (offset + sizeof value <= record.size) memcpy(&value, record.bytes + offset, sizeof value);
  return value;
}

std::uint64_t word(const RawRecord& record, std::size_t offset) noexcept {
  return member<std::uint64_t>(record, offset);
}
std::uint32_t half(const RawRecord& record, std::size_t offset) noexcept {
  return member<std::uint32_t>(record, offset);
}
std::int32_t device(const RawRecord& record, std::size_t offset) noexcept {
  return member<std::int32_t>(record, offset);
}

constexpr std::uint8_t kIsAsynchronous = 1;  // CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC

template <class Layout, class Record>
void fill_times(const RawRecord& from, Record& to) noexcept {
  to.start = word(from, Layout::kStart);
  to.end = word(from, Layout::kEnd);
}

// The place of the activity in the device's work.
template <class Layout, class Record>
void fill_place(const RawRecord& from, Record& to) noexcept {
  to.correlation = half(from, Layout::kCorrelation);
  to.context = half(from, Layout::kContext);
  to.stream = half(from, Layout::kStream);
  to.device = device(from, Layout::kDevice);
}

template <class Layout>
void fill_copy(const RawRecord& from, trace::ActivityCopy& to) noexcept {
  fill_times<Layout>(from, to);
  fill_place<Layout>(from, to);
  to.bytes = word(from, Layout::kBytesCopied);
  to.graph_node = word(from, Layout::kGraphNode);
  to.copy_kind = member<std::uint8_t>(from, Layout::kCopyKind);
  to.source_kind = member<std::uint8_t>(from, Layout::kSourceKind);
  to.destination_kind = member<std::uint8_t>(from, Layout::kDestinationKind);
  to.is_asynchronous = member<std::uint8_t>(from, Layout::kFlags) & kIsAsynchronous;
}

void fill(const RawRecord& from, const TakeOver& what, layouts::Memcpy,
          trace::ActivityCopy& to) noexcept {
  using Layout = layouts::Memcpy;
  fill_copy<Layout>(from, to);
  if (what.version >= Layout::kVersionWithCopyCount) to.copies = word(from, Layout::kCopyCount);
}

void fill(const RawRecord& from, const TakeOver&, layouts::MemcpyPeer,
          trace::ActivityCopy& to) noexcept {
  using Layout = layouts::MemcpyPeer;
  fill_copy<Layout>(from, to);
  to.source_device = device(from, Layout::kSourceDevice);
  to.destination_device = device(from, Layout::kDestinationDevice);
}

void fill(const RawRecord& from, const TakeOver&, layouts::Memset,
          trace::ActivitySet& to) noexcept {
  using Layout = layouts::Memset;
  fill_times<Layout>(from, to);
  fill_place<Layout>(from, to);
  to.bytes = word(from, Layout::kBytesSet);
  to.graph_node = word(from, Layout::kGraphNode);
  to.value = half(from, Layout::kValue);
  to.memory_kind = member<std::uint16_t>(from, Layout::kMemoryKind);
}

void fill(const RawRecord& from, const TakeOver&, layouts::Memory,
          trace::ActivityMemory& to) noexcept {
  using Layout = layouts::Memory;
  fill_place<Layout>(from, to);
  to.timestamp = word(from, Layout::kTimestamp);
  to.address = word(from, Layout::kAddress);
  to.bytes = word(from, Layout::kBytesAllocated);
  to.pool = word(from, Layout::kPool);
  to.operation = half(from, Layout::kOperation);
  to.memory_kind = half(from, Layout::kMemoryKind);
  to.pool_type = half(from, Layout::kPoolType);
  to.is_asynchronous = half(from, Layout::kIsAsynchronous) != 0 ? 1 : 0;
}

void fill(const RawRecord& from, const TakeOver&, layouts::MemoryPool,
          trace::ActivityPool& to) noexcept {
  using Layout = layouts::MemoryPool;
  to.timestamp = word(from, Layout::kTimestamp);
  to.pool = word(from, Layout::kPool);
  to.reserved_bytes = word(from, Layout::kReservedBytes);
  to.used_bytes = word(from, Layout::kUsedBytes);
  to.release_threshold = word(from, Layout::kReleaseThreshold);
  to.operation = half(from, Layout::kOperation);
  to.pool_type = half(from, Layout::kPoolType);
  to.correlation = half(from, Layout::kCorrelation);
  to.device = device(from, Layout::kDevice);
}

void fill(const RawRecord& from, const TakeOver&, layouts::ManagedCounter,
          trace::ActivityManaged& to) noexcept {
  using Layout = layouts::ManagedCounter;
  fill_times<Layout>(from, to);
  to.address = word(from, Layout::kAddress);
  to.value = word(from, Layout::kValue);
  to.counter = half(from, Layout::kCounter);
  to.source = device(from, Layout::kSource);
  to.destination = device(from, Layout::kDestination);
  to.access = half(from, Layout::kFlags);
}

void fill(const RawRecord& from, const TakeOver&, layouts::Overhead,
          trace::ActivityOverhead& to) noexcept {
  fill_times<layouts::Overhead>(from, to);
  to.overhead = half(from, layouts::Overhead::kOverhead);
}

void fill(const RawRecord& from, const TakeOver&, layouts::Kernel,
          trace::ActivityKernel& to) noexcept {
  fill_times<layouts::Kernel>(from, to);
  fill_place<layouts::Kernel>(from, to);
  to.graph_node = word(from, layouts::Kernel::kGraphNode);
}

void fill(const RawRecord& from, const TakeOver&, layouts::Call, trace::ActivityCall& to) noexcept {
  using Layout = layouts::Call;
  fill_times<Layout>(from, to);
  to.correlation = half(from, Layout::kCorrelation);
  to.thread_id = half(from, Layout::kThread);
  to.function = half(from, Layout::kFunction);
  to.returned = half(from, Layout::kReturned);
  to.domain = kind_of(from) == Kind::kDriver ? trace::ActivityDomain::kDriver
                                             : trace::ActivityDomain::kRuntime;
}

template <class Record, class Layout>
Taken write(const RawRecord& from, const TakeOver& what, const Recorder& recorder) noexcept {
  if (from.size < Layout::kBytes) return Taken::kNotOurs;
  Record record;
  record.record.kind = trace::kind_of<Record>();
  record.record.time = recorder.ticks();
  record.library = what.library;
  fill(from, what, Layout{}, record);
  return recorder.write(&record, sizeof record, nullptr, 0) ? Taken::kWritten : Taken::kNoRoom;
}

bool is_wanted(const RawRecord& record, Kind kind, const TakeOver& what) noexcept {
  if (kind == Kind::kDriver) return what.calls && kDriverCopies.contains(function_of(record));
  if (kind == Kind::kRuntime) return what.calls && kRuntimeCopies.contains(function_of(record));
  return what.kinds.contains(kind);
}

}  // namespace

Kind kind_of(const RawRecord& record) noexcept { return static_cast<Kind>(half(record, 0)); }

CallbackId function_of(const RawRecord& record) noexcept {
  return half(record, layouts::Call::kFunction);
}

std::uint64_t start_of(const RawRecord& record) noexcept {
  switch (kind_of(record)) {
    case Kind::kDriver:
    case Kind::kRuntime:
      return word(record, layouts::Call::kStart);
    case Kind::kMemory2:
      return word(record, layouts::Memory::kTimestamp);
    case Kind::kMemoryPool:
      return word(record, layouts::MemoryPool::kTimestamp);
    case Kind::kOverhead:
      return word(record, layouts::Overhead::kStart);
    case Kind::kMemcpy:
    case Kind::kMemcpy2:
    case Kind::kMemset:
    case Kind::kKernel:
    case Kind::kConcurrentKernel:
    case Kind::kUnifiedMemoryCounter:
      return word(record, layouts::Memcpy::kStart);  // the same place in all of them
    default:
      return 0;
  }
}

std::uint32_t correlation_of(const RawRecord& record) noexcept {
  switch (kind_of(record)) {
    case Kind::kDriver:
    case Kind::kRuntime:
      return half(record, layouts::Call::kCorrelation);
    case Kind::kMemcpy:
    case Kind::kMemset:
      return half(record, layouts::Memcpy::kCorrelation);
    case Kind::kMemcpy2:
      return half(record, layouts::MemcpyPeer::kCorrelation);
    case Kind::kKernel:
    case Kind::kConcurrentKernel:
      return half(record, layouts::Kernel::kCorrelation);
    case Kind::kMemory2:
      return half(record, layouts::Memory::kCorrelation);
    case Kind::kMemoryPool:
      return half(record, layouts::MemoryPool::kCorrelation);
    default:
      return 0;
  }
}

std::uint32_t context_of(const RawRecord& record) noexcept {
  switch (kind_of(record)) {
    case Kind::kMemcpy:
    case Kind::kMemcpy2:
    case Kind::kMemset:
      return half(record, layouts::Memcpy::kContext);
    case Kind::kKernel:
    case Kind::kConcurrentKernel:
      return half(record, layouts::Kernel::kContext);
    case Kind::kMemory2:
      return half(record, layouts::Memory::kContext);
    default:
      return kNoContext;
  }
}

Taken take_over(const RawRecord& record, const TakeOver& what, const Recorder& recorder) noexcept {
  const Kind kind = kind_of(record);
  if (!is_wanted(record, kind, what)) return Taken::kNotOurs;
  switch (kind) {
    case Kind::kMemcpy:
      return write<trace::ActivityCopy, layouts::Memcpy>(record, what, recorder);
    case Kind::kMemcpy2:
      return write<trace::ActivityCopy, layouts::MemcpyPeer>(record, what, recorder);
    case Kind::kMemset:
      return write<trace::ActivitySet, layouts::Memset>(record, what, recorder);
    case Kind::kMemory2:
      return write<trace::ActivityMemory, layouts::Memory>(record, what, recorder);
    case Kind::kMemoryPool:
      return write<trace::ActivityPool, layouts::MemoryPool>(record, what, recorder);
    case Kind::kUnifiedMemoryCounter:
      return write<trace::ActivityManaged, layouts::ManagedCounter>(record, what, recorder);
    case Kind::kOverhead:
      return write<trace::ActivityOverhead, layouts::Overhead>(record, what, recorder);
    case Kind::kKernel:
    case Kind::kConcurrentKernel:
      return write<trace::ActivityKernel, layouts::Kernel>(record, what, recorder);
    case Kind::kDriver:
    case Kind::kRuntime:
      return write<trace::ActivityCall, layouts::Call>(record, what, recorder);
    default:
      return Taken::kNotOurs;
  }
}

}  // namespace gpumemtrace::cupti
