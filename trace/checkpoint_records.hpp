// SPDX-License-Identifier: Apache-2.0
// What a checkpoint keeps of records that are gone: totals of alike calls, the peaks before the cut
// and who held them. The rules of trace/records.hpp apply.
#pragma once

#include <cstdint>

#include "trace/records.hpp"

namespace gpumemtrace::trace {

// What lay at an end of a copy by the allocations before it; unknown: none of them had the address.
enum class Place : std::uint8_t { kUnknown = 0, kPinned = 1, kDevice = 2, kManaged = 3 };

// Alike calls that a checkpoint replaced. Allocations and blocks are counted here only together
// with what ended them; `time` is the cut.
struct Totals {
  RecordHeader record;       // api and flags of the calls
  std::uint64_t caller = 0;  // as in CallHeader, like stack and context
  std::uint64_t pool = 0;
  std::uint64_t count = 0;   // successful calls
  std::uint64_t freed = 0;   // allocations: how many of them a free ended
  std::uint64_t failed = 0;  // calls that failed
  std::uint64_t bytes = 0;
  std::uint64_t largest_bytes = 0;
  std::uint64_t host_ticks = 0;  // copies and sets: between start and end
  std::uint32_t stack = 0;
  std::uint32_t context = 0;
  std::uint32_t kind = 0;  // RecordKind of the calls
  MemoryKind memory = MemoryKind::kUnknown;
  std::int32_t location = -1;       // allocations: as in Allocation; blocks: the device
  std::int32_t source_device = -1;  // of what lay there; -1 where nothing is known
  std::int32_t destination_device = -1;
  EndType source_type = EndType::kUnknown;
  EndType destination_type = EndType::kUnknown;
  Place source = Place::kUnknown;
  Place destination = Place::kUnknown;
};

enum class PeakScope : std::uint32_t {
  kDriver = 1,             // all driver memory of the device
  kPools = 2,              // all stream-ordered allocations of the device
  kManaged = 3,            // all managed memory of the device
  kHost = 4,               // all page-locked host memory
  kFramework = 5,          // all framework blocks of the device
  kKind = 6,               // memory of one kind on the device, of pools: of one pool
  kFrameworkReserved = 7,  // what the framework itself said that it reserves
  kPhysical = 8,           // driver memory and what pools hold of the device
  // No peaks, but what the rest of the trace begins with.
  kPoolReserved = 9,  // what the pool held at the cut; pool_reserved is the most that it ever held
  kLastSample = 10,   // what the process held by its own calls at the last memory sample
};

// The highest point before a checkpoint's cut. PeakHolder records that say whose it was follow.
struct Peak {
  RecordHeader record;
  std::uint64_t peak_time = 0;  // ticks
  std::uint64_t bytes = 0;
  std::uint64_t pool = 0;  // kKind: handle, 0 = the device's default pool
  PeakScope scope = PeakScope::kDriver;
  MemoryKind memory = MemoryKind::kUnknown;  // kKind
  std::int32_t device = -1;
  SampleSource source = SampleSource::kNone;  // kPhysical: of the sample nearest to the peak
  // kPhysical: what the bytes consisted of, and the sample nearest to it.
  std::uint64_t framework_allocated = 0;
  std::uint64_t pool_used = 0;
  std::uint64_t pool_reserved = 0;
  std::uint64_t sample_time = 0;
  std::uint64_t sample_free = 0;
  std::uint64_t sample_total = 0;
  std::uint64_t sample_process = 0;
  std::uint64_t sample_other = 0;
  std::uint64_t sample_physical = 0;  // bytes that the process held by its own calls then
};

// What alike allocations had of the peak whose record came last.
struct PeakHolder {
  RecordHeader record;  // api and flags of the allocations
  std::uint64_t caller = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint32_t stack = 0;
  MemoryKind memory = MemoryKind::kUnknown;
};

// The last record of a checkpoint. Records before it in the checkpoint are those that the folded
// part of the trace still needs: what was live at the cut, and the dictionary.
struct Checkpoint {
  RecordHeader record;        // time: the cut
  std::uint64_t folds = 0;    // how often a part of the trace was folded
  std::uint64_t records = 0;  // records that are gone
  std::uint64_t events = 0;   // of them, calls and framework blocks
  std::uint64_t order_repaired = 0;
  std::uint64_t live_address_allocated = 0;
  std::uint64_t inexact = 0;  // 1: graphs allocated memory, which the peaks above do not count
  std::uint64_t activity_records = 0;  // of `records`, those of CUPTI's activities
};

}  // namespace gpumemtrace::trace
