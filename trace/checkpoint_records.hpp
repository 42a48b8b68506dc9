// SPDX-License-Identifier: Apache-2.0
// What a checkpoint keeps of records that are gone: totals of alike calls, the peaks before the cut
// and who held them. The rules of trace/records.hpp apply.
#pragma once

#include <cstdint>

#include "trace/records.hpp"

namespace gpumemtrace::trace {

// What lay at an end of a copy by the allocations before it and by what the call said. Unknown: the
// reader goes by what the call said.
enum class Place : std::uint8_t {
  kUnknown = 0,
  kPinned = 1,
  kDevice = 2,
  kManaged = 3,
  kPageable = 4,
  kArray = 5,
};

// Totals::location of calls in a context that was not announced yet.
inline constexpr std::int32_t kNoKnownDevice = -2;

// Whether one place freed all of the allocations whose free is known.
enum class FreedAt : std::uint32_t { kNotTold = 0, kOnePlace = 1, kSeveralPlaces = 2 };

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
  std::uint64_t host_ticks = 0;  // between start and end; of allocations also of what freed them
  std::uint32_t stack = 0;
  std::uint32_t context = 0;
  std::uint32_t kind = 0;  // RecordKind of the calls
  MemoryKind memory = MemoryKind::kUnknown;
  // The device of allocations and blocks, and of the context of copies and sets. -1: host memory,
  // or what the context says; kNoKnownDevice: nothing said it at the time of the call.
  std::int32_t location = -1;
  std::int32_t source_device = -1;  // of what lay there; -1 where nothing is known
  std::int32_t destination_device = -1;
  EndType source_type = EndType::kUnknown;
  EndType destination_type = EndType::kUnknown;
  Place source = Place::kUnknown;
  Place destination = Place::kUnknown;
  // Allocations: what freed them.
  std::uint64_t last_time = 0;         // ticks, of the last allocation; 0 = not told
  std::uint64_t first_freed_time = 0;  // ticks, of the first free whose call is known
  std::uint64_t freed_caller = 0;      // of that call, like the next three
  std::uint32_t freed_stack = 0;
  std::uint16_t freed_api = 0;
  std::uint16_t freed_flags = 0;
  FreedAt freed_at = FreedAt::kNotTold;
  std::uint32_t reserved = 0;
};

enum class PeakScope : std::uint32_t {
  kDriver = 1,     // all driver memory of the device
  kPools = 2,      // all stream-ordered allocations of the device
  kManaged = 3,    // all managed memory of the device
  kHost = 4,       // all page-locked host memory
  kFramework = 5,  // all framework blocks of the device
  kKind = 6,       // memory of one kind on the device, of pools: of one pool
  // What the framework itself said that it reserves; peak_time: when it said so last,
  // pool_reserved: what it held at the cut.
  kFrameworkReserved = 7,
  kPhysical = 8,  // driver memory and what pools hold of the device
  // No peaks, but what the rest of the trace begins with.
  kPoolReserved = 9,  // what the pool held at the cut; pool_reserved is the most that it ever held
  kLastSample = 10,   // what the process held by its own calls at the last memory sample
  kPoolSamples = 11,  // the sample at which the device's pools held most: pool_used, pool_reserved
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

// The last record of a checkpoint. Records before it in the checkpoint are those that the compacted
// part of the trace still needs: what was live at the cut, and the dictionary.
struct Checkpoint {
  RecordHeader record;        // time: the cut
  std::uint64_t folds = 0;    // how often part of the trace was compacted
  std::uint64_t records = 0;  // records that are gone
  std::uint64_t events = 0;   // of them, calls and framework blocks
  std::uint64_t order_repaired = 0;
  std::uint64_t live_address_allocated = 0;
  std::uint64_t inexact = 0;  // 1: graphs allocated memory, which the peaks above do not count
  std::uint64_t activity_records = 0;  // of `records`, those of CUPTI's activities
  std::uint64_t first_time = 0;        // ticks, of the first record of all
};

// What lay at the address of a free that the driver refused.
enum class FreedWhat : std::uint32_t {
  kLiveMemory = 0,   // the address is right, the function is not
  kFreedBefore = 1,  // and nothing was allocated there since
  kEndedBefore = 2,  // with its context
  kInsideLive = 3,   // an address within an allocation, not its start
  kNothingKnown = 4,
};

// Of allocated_flags and freed_flags in RefusedFree, beside kFlagByPointer: the place is known.
inline constexpr std::uint16_t kRefusedFreeKnown = 2;

// Alike frees that the driver refused, and what the first of them was about.
struct RefusedFree {
  RecordHeader record;       // api, flags and result of the frees
  std::uint64_t caller = 0;  // as in CallHeader, like stack
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_time = 0;  // ticks
  std::uint64_t last_time = 0;
  std::uint64_t offset_bytes = 0;      // kInsideLive: from the start of the allocation
  std::uint64_t allocated_caller = 0;  // where what lay there was allocated, if that is known
  std::uint64_t freed_caller = 0;      // where it had been freed, or its context ended
  std::uint32_t stack = 0;
  FreedWhat what = FreedWhat::kLiveMemory;
  std::uint32_t allocated_stack = 0;
  std::uint32_t freed_stack = 0;
  std::uint16_t allocated_api = 0;
  std::uint16_t allocated_flags = 0;
  std::uint16_t freed_api = 0;
  std::uint16_t freed_flags = 0;
};

// The last free of an address, of an allocation that the Totals record before it counts: what a
// second free of the address is explained by.
struct RecentFree {
  RecordHeader record;  // api and flags of the call
  std::uint64_t address = 0;
  std::uint64_t caller = 0;
  std::uint32_t stack = 0;
  std::uint32_t reserved = 0;
};

}  // namespace gpumemtrace::trace
