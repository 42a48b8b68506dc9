// SPDX-License-Identifier: Apache-2.0
// What CUPTI's activity records say, one kind here for each kind there. Times are those of CUPTI's
// clock, unchanged; ActivityClock records pair it with ticks. `time` of the header is when the
// record was taken over. Enumerators and ids are CUPTI's (cupti_activity.h); `library` tells the
// copies of libcupti in one process apart, 0 is the first.
#pragma once

#include "trace/records.hpp"

namespace gpumemtrace::trace {

enum class ActivityDomain : std::uint16_t { kDriver = 1, kRuntime = 2 };

// A call of a function that copies or sets. The copies and sets that it made have its correlation.
struct ActivityCall {
  RecordHeader record;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint32_t correlation = 0;
  std::uint32_t thread_id = 0;  // the system's, or the low half of pthread_self()
  std::uint32_t function = 0;   // CUPTI's callback id in the domain
  std::uint32_t returned = 0;   // CUresult or cudaError_t
  ActivityDomain domain = ActivityDomain::kDriver;
  std::uint16_t library = 0;
  std::uint32_t reserved = 0;
};

struct ActivityCopy {
  RecordHeader record;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t bytes = 0;
  std::uint64_t graph_node = 0;  // 0 = not of a graph
  std::uint64_t copies = 0;      // that the record stands for; 0 where CUPTI does not say
  std::uint32_t correlation = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::int32_t device = -1;              // that ran it
  std::int32_t source_device = -1;       // peer copies; else -1
  std::int32_t destination_device = -1;  // likewise
  std::uint8_t copy_kind = 0;
  std::uint8_t source_kind = 0;
  std::uint8_t destination_kind = 0;
  std::uint8_t is_asynchronous = 0;
  std::uint16_t library = 0;
  std::uint16_t reserved = 0;
};

struct ActivitySet {
  RecordHeader record;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t bytes = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t correlation = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::int32_t device = -1;
  std::uint32_t value = 0;
  std::uint16_t memory_kind = 0;
  std::uint16_t library = 0;
};

// MEMORY2: an allocation or a release as CUPTI saw it.
struct ActivityMemory {
  RecordHeader record;
  std::uint64_t timestamp = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pool = 0;
  std::uint32_t operation = 0;
  std::uint32_t memory_kind = 0;
  std::uint32_t pool_type = 0;
  std::uint32_t correlation = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::int32_t device = -1;
  std::uint16_t is_asynchronous = 0;
  std::uint16_t library = 0;
};

struct ActivityPool {
  RecordHeader record;
  std::uint64_t timestamp = 0;
  std::uint64_t pool = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t release_threshold = 0;
  std::uint32_t operation = 0;
  std::uint32_t pool_type = 0;
  std::uint32_t correlation = 0;
  std::int32_t device = -1;
  std::uint32_t library = 0;
  std::uint32_t reserved = 0;
};

// UNIFIED_MEMORY_COUNTER: a migration or a fault of managed memory.
struct ActivityManaged {
  RecordHeader record;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t address = 0;
  std::uint64_t value = 0;  // bytes of a migration; faults: their number or the fault's address
  std::uint32_t counter = 0;
  std::int32_t source = -1;       // device; negative: the host
  std::int32_t destination = -1;  // likewise
  std::uint32_t access = 0;       // CUPTI's `flags`
  std::uint32_t library = 0;
  std::uint32_t reserved = 0;
};

struct ActivityOverhead {
  RecordHeader record;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint32_t overhead = 0;
  std::uint32_t library = 0;
};

struct ActivityKernel {
  RecordHeader record;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t correlation = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::int32_t device = -1;
  std::uint32_t library = 0;
  std::uint32_t reserved = 0;
};

// `timestamp` of CUPTI's clock was read between `time` and `time` + `uncertainty_ticks`. Another
// client may exchange that clock; `epoch` counts how often.
struct ActivityClock {
  RecordHeader record;
  std::uint64_t timestamp = 0;
  std::uint64_t uncertainty_ticks = 0;
  std::uint32_t epoch = 0;
  std::uint32_t library = 0;
};

enum class ActivityMode : std::uint16_t { kOff = 0, kCopies = 1, kFull = 2, kLost = 3 };

// From here on activity records are written, or no more. Tail: why.
struct ActivityState {
  RecordHeader record;
  std::uint32_t version = 0;   // cuptiGetVersion(); 0 = not known
  std::uint32_t returned = 0;  // CUptiResult that led to it
  ActivityMode mode = ActivityMode::kOff;
  std::uint16_t is_shared = 0;  // 1: the program has registered callbacks of its own
  std::uint16_t library = 0;
  std::uint16_t reserved = 0;
};

// Records that CUPTI, or the recorder for want of room, dropped since the last such record.
struct ActivityDropped {
  RecordHeader record;
  std::uint64_t by_cupti = 0;
  std::uint64_t by_recorder = 0;
};

}  // namespace gpumemtrace::trace
