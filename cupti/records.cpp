// SPDX-License-Identifier: Apache-2.0
#include "cupti/records.hpp"

#include <string.h>

#include <cstddef>

#include "cupti/abi.hpp"
#include "cupti/functions.hpp"
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

std::uint64_t member64(const RawRecord& record, std::size_t offset) noexcept {
  return member<std::uint64_t>(record, offset);
}
std::uint32_t member32(const RawRecord& record, std::size_t offset) noexcept {
  return member<std::uint32_t>(record, offset);
}
std::int32_t device(const RawRecord& record, std::size_t offset) noexcept {
  return member<std::int32_t>(record, offset);
}

constexpr std::uint8_t kIsAsynchronous = 1;  // CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC

// The types for one kind of CUPTI's records: the layout of the record, and the record of the trace
// that it becomes.
template <class LayoutOfKind, class RecordOfKind>
struct TypesOfKind {
  using Layout = LayoutOfKind;
  using Record = RecordOfKind;
};

// Calls use(types) with the types of a kind; returns `otherwise` for kinds that are not recorded.
template <class Result, class Use>
Result with_types_of_kind(Kind kind, Result otherwise, Use&& use) noexcept {
  switch (kind) {
    case Kind::kMemcpy:
      return use(TypesOfKind<layouts::Memcpy, trace::ActivityCopy>());
    case Kind::kMemcpy2:
      return use(TypesOfKind<layouts::MemcpyPeer, trace::ActivityCopy>());
    case Kind::kMemset:
      return use(TypesOfKind<layouts::Memset, trace::ActivitySet>());
    case Kind::kMemory2:
      return use(TypesOfKind<layouts::Memory, trace::ActivityMemory>());
    case Kind::kMemoryPool:
      return use(TypesOfKind<layouts::MemoryPool, trace::ActivityPool>());
    case Kind::kUnifiedMemoryCounter:
      return use(TypesOfKind<layouts::ManagedCounter, trace::ActivityManaged>());
    case Kind::kOverhead:
      return use(TypesOfKind<layouts::Overhead, trace::ActivityOverhead>());
    case Kind::kKernel:
    case Kind::kConcurrentKernel:
      return use(TypesOfKind<layouts::Kernel, trace::ActivityKernel>());
    case Kind::kDriver:
    case Kind::kRuntime:
      return use(TypesOfKind<layouts::Call, trace::ActivityCall>());
    default:
      return otherwise;
  }
}

// --- Members that several layouts have.

template <class Layout>
std::uint64_t start_in(const RawRecord& record) noexcept {
  if constexpr (requires { Layout::kStart; }) {
    return member64(record, Layout::kStart);
  } else {
    return member64(record, Layout::kTimestamp);
  }
}

template <class Layout>
std::uint32_t correlation_in(const RawRecord& record) noexcept {
  if constexpr (requires { Layout::kCorrelation; }) {
    return member32(record, Layout::kCorrelation);
  } else {
    return 0;
  }
}

template <class Layout>
std::uint32_t context_in(const RawRecord& record) noexcept {
  if constexpr (requires { Layout::kContext; }) {
    return member32(record, Layout::kContext);
  } else {
    return kNoContext;
  }
}

template <class Layout, class Record>
void fill_common(const RawRecord& from, Record& to) noexcept {
  if constexpr (requires { to.start; }) {
    to.start = start_in<Layout>(from);
    to.end = member64(from, Layout::kEnd);
  } else {
    to.timestamp = start_in<Layout>(from);
  }
  if constexpr (requires { to.correlation; }) to.correlation = correlation_in<Layout>(from);
  if constexpr (requires { to.context; }) to.context = context_in<Layout>(from);
  if constexpr (requires { to.stream; }) to.stream = member32(from, Layout::kStream);
  if constexpr (requires { to.device; }) to.device = device(from, Layout::kDevice);
  if constexpr (requires { to.graph_node; }) to.graph_node = member64(from, Layout::kGraphNode);
}

// --- Members of one layout.

template <class Layout>
void fill_copy(const RawRecord& from, trace::ActivityCopy& to) noexcept {
  to.bytes = member64(from, Layout::kBytesCopied);
  to.copy_kind = member<std::uint8_t>(from, Layout::kCopyKind);
  to.source_kind = member<std::uint8_t>(from, Layout::kSourceKind);
  to.destination_kind = member<std::uint8_t>(from, Layout::kDestinationKind);
  to.is_asynchronous = member<std::uint8_t>(from, Layout::kFlags) & kIsAsynchronous;
}

void fill(const RawRecord& from, const TakeOver& what, layouts::Memcpy,
          trace::ActivityCopy& to) noexcept {
  using Layout = layouts::Memcpy;
  fill_copy<Layout>(from, to);
  if (what.version >= Layout::kVersionWithCopyCount) to.copies = member64(from, Layout::kCopyCount);
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
  to.bytes = member64(from, Layout::kBytesSet);
  to.value = member32(from, Layout::kValue);
  to.memory_kind = member<std::uint16_t>(from, Layout::kMemoryKind);
}

void fill(const RawRecord& from, const TakeOver&, layouts::Memory,
          trace::ActivityMemory& to) noexcept {
  using Layout = layouts::Memory;
  to.address = member64(from, Layout::kAddress);
  to.bytes = member64(from, Layout::kBytesAllocated);
  to.pool = member64(from, Layout::kPool);
  to.operation = member32(from, Layout::kOperation);
  to.memory_kind = member32(from, Layout::kMemoryKind);
  to.pool_type = member32(from, Layout::kPoolType);
  to.is_asynchronous = member32(from, Layout::kIsAsynchronous) != 0 ? 1 : 0;
}

void fill(const RawRecord& from, const TakeOver&, layouts::MemoryPool,
          trace::ActivityPool& to) noexcept {
  using Layout = layouts::MemoryPool;
  to.pool = member64(from, Layout::kPool);
  to.reserved_bytes = member64(from, Layout::kReservedBytes);
  to.used_bytes = member64(from, Layout::kUsedBytes);
  to.release_threshold = member64(from, Layout::kReleaseThreshold);
  to.operation = member32(from, Layout::kOperation);
  to.pool_type = member32(from, Layout::kPoolType);
}

void fill(const RawRecord& from, const TakeOver&, layouts::ManagedCounter,
          trace::ActivityManaged& to) noexcept {
  using Layout = layouts::ManagedCounter;
  to.address = member64(from, Layout::kAddress);
  to.value = member64(from, Layout::kValue);
  to.counter = member32(from, Layout::kCounter);
  to.source = device(from, Layout::kSource);
  to.destination = device(from, Layout::kDestination);
  to.access = member32(from, Layout::kFlags);
}

void fill(const RawRecord& from, const TakeOver&, layouts::Overhead,
          trace::ActivityOverhead& to) noexcept {
  to.overhead = member32(from, layouts::Overhead::kOverhead);
}

// fill_common() fills in all members of a kernel.
void fill(const RawRecord&, const TakeOver&, layouts::Kernel, trace::ActivityKernel&) noexcept {}

void fill(const RawRecord& from, const TakeOver&, layouts::Call, trace::ActivityCall& to) noexcept {
  using Layout = layouts::Call;
  to.thread_id = member32(from, Layout::kThread);
  to.function = member32(from, Layout::kFunction);
  to.returned = member32(from, Layout::kReturned);
  to.domain = kind_of(from) == Kind::kDriver ? trace::ActivityDomain::kDriver
                                             : trace::ActivityDomain::kRuntime;
}

template <class Layout, class Record>
Taken write(const RawRecord& from, const TakeOver& what, const Recorder& recorder) noexcept {
  if (from.size < Layout::kBytes) return Taken::kNotOurs;
  Record record;
  record.record.kind = trace::kind_of<Record>();
  record.record.time = recorder.ticks();
  record.library = what.library;
  fill_common<Layout>(from, record);
  fill(from, what, Layout{}, record);
  return recorder.write(&record, sizeof record, nullptr, 0) ? Taken::kWritten : Taken::kNoRoom;
}

bool is_wanted(const RawRecord& record, Kind kind, const TakeOver& what) noexcept {
  if (kind == Kind::kDriver) return what.calls && kDriverCopies.contains(function_of(record));
  if (kind == Kind::kRuntime) return what.calls && kRuntimeCopies.contains(function_of(record));
  return what.kinds.contains(kind);
}

}  // namespace

Kind kind_of(const RawRecord& record) noexcept { return static_cast<Kind>(member32(record, 0)); }

CallbackId function_of(const RawRecord& record) noexcept {
  return member32(record, layouts::Call::kFunction);
}

std::uint64_t start_of(const RawRecord& record) noexcept {
  return with_types_of_kind(kind_of(record), std::uint64_t{0}, [&](auto types) noexcept {
    return start_in<typename decltype(types)::Layout>(record);
  });
}

std::uint32_t correlation_of(const RawRecord& record) noexcept {
  return with_types_of_kind(kind_of(record), std::uint32_t{0}, [&](auto types) noexcept {
    return correlation_in<typename decltype(types)::Layout>(record);
  });
}

std::uint32_t context_of(const RawRecord& record) noexcept {
  return with_types_of_kind(kind_of(record), kNoContext, [&](auto types) noexcept {
    return context_in<typename decltype(types)::Layout>(record);
  });
}

Taken take_over(const RawRecord& record, const TakeOver& what, const Recorder& recorder) noexcept {
  const Kind kind = kind_of(record);
  if (!is_wanted(record, kind, what)) return Taken::kNotOurs;
  return with_types_of_kind(kind, Taken::kNotOurs, [&](auto types) noexcept {
    return write<typename decltype(types)::Layout, typename decltype(types)::Record>(record, what,
                                                                                     recorder);
  });
}

}  // namespace gpumemtrace::cupti
