// SPDX-License-Identifier: Apache-2.0
// Rows on a card as a whole: its peak and that of the job, the pools on it, memory that the driver
// took by itself, and NCCL's communicators.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// The curve of a peak: all memory in use on the card, or that of the job's processes.
enum class PeakOf : std::uint8_t { kCard, kJob };
constexpr auto names(PeakOf) { return std::to_array<std::string_view>({"card", "job"}); }

// The parts of the memory in use on a card.
enum class CardPartKind : std::uint8_t {
  kFrameworkAllocated,
  kFrameworkCached,
  kPoolUsed,
  kPoolCached,
  kAllocated,
  kManaged,
  kRounding,
  kDriver,
  kOtherProcesses,
  kNoProcess,
  kNotSeparable,
};
constexpr auto names(CardPartKind) {
  return std::to_array<std::string_view>(
      {"framework_allocated", "framework_cached", "pool_used", "pool_cached", "allocated",
       "managed", "rounding", "driver", "other_processes", "no_process", "not_separable"});
}

struct CardPart {
  // null: no process of the job; if `what` is driver, the job's child processes without a trace
  OptionalProcess process;
  CardPartKind what = CardPartKind::kNotSeparable;
  OptionalName<Secret::kOwner> owner;  // the memory's owner, if `what` is allocated
  std::uint64_t bytes = 0;

  GPUMEMTRACE_FIELDS(process, what, owner, bytes)
};

// The maximum of one curve on one device: the memory in use on the card, or that of this job's
// processes. In use is total - reserved - free of nvmlDeviceGetMemoryInfo_v2, which is total - free
// of cuMemGetInfo. `bytes` is high_bytes. If nobody asked the driver, `bytes` and low_bytes are the
// bytes that calls asked for, and high_bytes is the size of the card. The parts sum to `bytes`. If
// processes cannot be told apart, the memory beyond their calls is not_separable and in both rows.
struct CardPeak {
  OptionalDevice device;
  PeakOf of = PeakOf::kCard;
  std::uint64_t bytes = 0;
  std::uint64_t low_bytes = 0;   // the peak is at least this many
  std::uint64_t high_bytes = 0;  // and at most this, under the assumption in docs/limits.md
  bool is_exact = false;         // the driver was asked for its numbers at time_ns itself
  OptionalTime time_ns;
  std::vector<CardPart> parts;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, device, of, bytes, low_bytes, high_bytes);
    v("exact", self.is_exact);
    GPUMEMTRACE_KEYS(v, time_ns, parts);
  }
};

// Tells if a row is stated by the trace or was concluded.
enum class RowBasis : std::uint8_t { kExact, kInferred };
constexpr auto names(RowBasis) { return std::to_array<std::string_view>({"exact", "inferred"}); }

// kPrivate stands for several private pools of PyTorch in one row, which cannot be told apart.
enum class PoolKind : std::uint8_t { kDefault, kGraph, kMemPool, kPrivate, kDriver };
constexpr auto names(PoolKind) {
  return std::to_array<std::string_view>({"default", "graph", "mempool", "private", "driver"});
}

// One pool of PyTorch's allocator or of the driver.
struct PoolRow : OnDevice {
  PartId id;  // made by gpumemtrace: a pool's own id is not visible
  RowBasis basis = RowBasis::kInferred;
  // default: memory that no capture allocated from, pools of torch.cuda.MemPool included. graph: a
  // private pool of one or more captures. private: private pools that cannot be told apart.
  PoolKind kind = PoolKind::kDefault;
  std::optional<Site> made_at;
  OptionalStack stack;    // id of a row of stacks[]
  OptionalNumber graphs;  // the number of captures that allocated from the pool
  std::uint64_t reserved_peak_bytes = 0;
  std::uint64_t allocated_peak_bytes = 0;
  OptionalNumber reserved_bytes_at_peak;  // reserved when the device's total peaked
  OptionalNumber allocated_bytes_at_peak;
  // For pools of CUDA graphs: allocated when the pool's last capture had ended. These bytes stay in
  // use between replays.
  OptionalNumber allocated_bytes_after_capture;
  OptionalNumber live_graphs_at_end;
  OptionalTime time_ns;  // when the pool was made

  GPUMEMTRACE_FIELDS(process, device, id, basis, kind, made_at, stack, graphs, reserved_peak_bytes,
                     allocated_peak_bytes, reserved_bytes_at_peak, allocated_bytes_at_peak,
                     allocated_bytes_after_capture, live_graphs_at_end, time_ns)
};

enum class DriverPartKind : std::uint8_t {
  kContext,
  kModules,
  kGraphs,
  kLocalMemory,
  kHeap,
  kPrintf,
  kUnknown,
};
constexpr auto names(DriverPartKind) {
  return std::to_array<std::string_view>(
      {"context", "modules", "graphs", "local_memory", "heap", "printf", "unknown"});
}

struct DriverPart {
  DriverPartKind what = DriverPartKind::kUnknown;
  std::uint64_t bytes = 0;
  RowBasis basis = RowBasis::kInferred;
  std::optional<Site> site;

  GPUMEMTRACE_FIELDS(what, bytes, basis, site)
};

// Counts of executable CUDA graphs of one process on one device; live_peak is the most at once.
struct GraphCounts {
  std::uint64_t instantiated = 0;
  std::uint64_t destroyed = 0;
  std::uint64_t live_peak = 0;

  GPUMEMTRACE_FIELDS(instantiated, destroyed, live_peak)
};

// Memory that the driver took by itself: the context, code, graphs, local memory. The parts sum to
// `peak_bytes`.
struct DriverMemory : OnDevice {
  std::uint64_t samples = 0;  // the number of times that the driver was asked
  OptionalNumber first_bytes;
  OptionalNumber peak_bytes;
  OptionalNumber end_bytes;
  std::vector<DriverPart> parts;
  GraphCounts graphs;

  GPUMEMTRACE_FIELDS(process, device, samples, first_bytes, peak_bytes, end_bytes, parts, graphs)
};

// One communicator of NCCL. The row without an id has the memory of NCCL's threads for
// communicators that are not known.
struct Communicator : OnDevice {
  std::optional<PartId> id;  // made by gpumemtrace
  std::uint64_t bytes = 0;   // the most that the communicator held at once
  // Bytes that it held when all communicators of the process together held most on the device
  std::uint64_t bytes_at_peak = 0;
  std::uint64_t allocations = 0;
  std::optional<Site> made_at;
  OptionalStack stack;  // id of a row of stacks[]
  // The communicator's size; null if NCCL does not give it (a split, NCCL before 2.18)
  OptionalNumber ranks;
  // This process's rank in it; null also if one call made all ranks
  OptionalNumber rank;
  // NCCL's own hash of it, the same in all processes; null before NCCL 2.25 and for a split
  OptionalPublicText nccl_hash;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, id, bytes, bytes_at_peak, allocations, made_at, stack,
                     ranks);
    GPUMEMTRACE_KEYS(v.added, rank, nccl_hash);
  }
};

}  // namespace gpumemtrace::analyzer::rows
