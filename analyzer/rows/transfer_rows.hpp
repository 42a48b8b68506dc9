// SPDX-License-Identifier: Apache-2.0
// Rows on copies, memory sets and managed memory that moves.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// The least, mean and most of a row's single copies. host: time in the call, which the copies of a
// batch share. gpu: time in CUPTI's records. null: not known, or a checkpoint has only the sums.
struct CopySpread {
  OptionalNumber min_bytes;
  OptionalNumber mean_bytes;
  OptionalNumber max_bytes;
  OptionalNumber min_host_ns;
  OptionalNumber mean_host_ns;
  OptionalNumber max_host_ns;
  OptionalNumber min_gpu_ns;
  OptionalNumber mean_gpu_ns;
  OptionalNumber max_gpu_ns;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v.added, min_bytes, mean_bytes, max_bytes, min_host_ns, mean_host_ns,
                     max_host_ns, min_gpu_ns, mean_gpu_ns, max_gpu_ns);
  }
};

struct Copies : OnDevice {
  Direction direction = Direction::kUnknown;
  MemoryClass source_memory = MemoryClass::kUnknown;
  MemoryClass destination_memory = MemoryClass::kUnknown;
  PublicText api;  // the function that the user's code called
  bool is_asynchronous = false;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_time_ns = 0;
  OptionalNumber gpu_time_ns;                   // the sum of the durations in CUPTI's records
  std::optional<double> bandwidth_bytes_per_s;  // joined_bytes divided by gpu_busy_ns
  // The bandwidth divided by that of the device's link to the host. null if the link is not known
  // or another one was used.
  std::optional<double> link_share;
  // True if launches of CUDA graphs made the copies: only CUPTI's records count them, without a
  // call or host time of their own.
  bool is_in_graph = false;
  std::uint64_t joined_count = 0;  // calls that CUPTI's records were joined to
  std::uint64_t joined_bytes = 0;  // the bytes that these records moved
  // The sum over calls of the time from the first record's start to the last one's end
  OptionalNumber gpu_busy_ns;
  // The part of gpu_time_ns while kernels ran on the device; null without records of kernels
  OptionalNumber overlapped_ns;
  CopySpread spread;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, direction, source_memory, destination_memory, api);
    v("asynchronous", self.is_asynchronous);
    GPUMEMTRACE_KEYS(v, count, bytes, host_time_ns, gpu_time_ns, bandwidth_bytes_per_s, link_share);
    v.added("in_graph", self.is_in_graph);
    GPUMEMTRACE_KEYS(v.added, joined_count, joined_bytes, gpu_busy_ns, overlapped_ns);
    CopySpread::fields(self.spread, v);
    v.exact(self.is_exact);
  }
};

struct Sets : OnDevice {
  MemoryClass destination_memory = MemoryClass::kUnknown;
  PublicText api;
  bool is_asynchronous = false;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_time_ns = 0;
  OptionalNumber gpu_time_ns;
  bool is_in_graph = false;
  std::uint64_t joined_count = 0;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, destination_memory, api);
    v("asynchronous", self.is_asynchronous);
    GPUMEMTRACE_KEYS(v, count, bytes, host_time_ns, gpu_time_ns);
    v.added("in_graph", self.is_in_graph);
    v.added("joined_count", self.joined_count);
    v.exact(self.is_exact);
  }
};

// Copies of one stream by CUPTI's records, joined to calls or not. `context` and `stream` are
// CUPTI's numbers.
struct Stream : OnDevice {
  std::uint64_t context = 0;
  std::uint64_t stream = 0;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t gpu_time_ns = 0;

  GPUMEMTRACE_FIELDS(process, device, context, stream, count, bytes, gpu_time_ns)
};

// Copies of one site that cost more than they must.
struct Hotspot : OnDevice {
  Rule rule = Rule::kSmallCopies;
  Direction direction = Direction::kUnknown;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  // The time that the calls held their threads. low_bandwidth: time on the GPU beyond the link's
  // need. copies_not_hidden: time on the GPU without a kernel beside it.
  std::uint64_t time_lost_ns = 0;
  // The most that the remedy could save. small_copies, synchronous_copies, pageable_copies:
  // time_lost_ns, but at most 10 us a copy and the bytes at 4 GB/s; the rest waited for work that
  // the GPU had to do in any case. ping_pong: the same for both ways; for pinned memory at least 10
  // us a copy and the bytes at 12 GB/s. Else time_lost_ns.
  OptionalNumber own_time_ns;
  // The time from the start of the first copy to the end of the last; the whole run if a checkpoint
  // replaced some.
  OptionalNumber loop_ns;
  Origin origin;
  PublicText advice;
  PublicText api;
  MemoryClass source_memory = MemoryClass::kUnknown;
  MemoryClass destination_memory = MemoryClass::kUnknown;
  std::uint64_t mean_bytes = 0;
  // Copies to the GPU that brought back the bytes of a copy to the host, by addresses and sizes
  std::uint64_t returned_count = 0;
  std::uint64_t returned_bytes = 0;
  // The time that the calls of these copies, to the host and back, held their threads
  std::uint64_t returned_host_ns = 0;
  OptionalNumber returned_up_ns;  // the part of returned_host_ns of the copies to the GPU
  // The sum of the times from the return of a copy to the host to the call of the copy back
  OptionalNumber returned_away_ns;
  // The part of returned_count whose memory on the GPU stayed allocated
  OptionalNumber returned_to_same_memory;
  // The part of returned_count whose memory on the GPU had been freed; for others it is unknown
  OptionalNumber returned_to_new_memory;
  OptionalLocation down_at;  // the line of the copies to the host
  // Copies with the same bytes as an earlier copy; null without --hash-copies
  OptionalNumber repeated_count;
  OptionalNumber repeated_bytes;
  OptionalNumber gpu_time_ns;
  std::optional<double> bandwidth_bytes_per_s;
  std::optional<double> link_share;
  OptionalNumber overlapped_ns;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, rule, process, device, direction, count, bytes, time_lost_ns);
    GPUMEMTRACE_KEYS(v.added, own_time_ns, loop_ns);
    Origin::fields(self.origin, v);
    v("advice", self.advice);
    GPUMEMTRACE_KEYS(v.added, api, source_memory, destination_memory, mean_bytes, returned_count,
                     returned_bytes, returned_host_ns, returned_up_ns, returned_away_ns,
                     returned_to_same_memory, returned_to_new_memory, down_at, repeated_count,
                     repeated_bytes, gpu_time_ns, bandwidth_bytes_per_s, link_share, overlapped_ns);
    v.exact(self.is_exact);
  }
};

// Copies of one line and kind. Each process has the 200 that copied most; the rest is its last row,
// with the owner "other".
struct CopySite : OnDevice {
  std::optional<Direction> direction;
  std::optional<MemoryClass> source_memory;
  std::optional<MemoryClass> destination_memory;
  OptionalPublicText api;
  std::optional<bool> is_asynchronous;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_time_ns = 0;
  OptionalNumber gpu_time_ns;
  std::optional<double> bandwidth_bytes_per_s;
  std::optional<double> link_share;
  CopySpread spread;
  Origin origin;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, direction, source_memory, destination_memory, api);
    v("asynchronous", self.is_asynchronous);
    GPUMEMTRACE_KEYS(v, count, bytes, host_time_ns, gpu_time_ns, bandwidth_bytes_per_s, link_share);
    CopySpread::fields(self.spread, v);
    Origin::fields(self.origin, v);
    v.exact(self.is_exact);
  }
};

struct Transfers {
  std::vector<Copies> by_kind;
  std::vector<CopySite> sites;
  std::vector<Hotspot> hotspots;
  std::vector<Sets> sets;
  OptionalNumber unjoined;  // CUPTI's records without a call; null if CUPTI was off
  std::vector<Stream> streams;

  static void fields(auto& self, auto& v) {
    v("by_kind", self.by_kind);
    v.added("sites", self.sites);
    GPUMEMTRACE_KEYS(v, hotspots, sets, unjoined);
    v.added("streams", self.streams);
  }
};

// Managed memory that the driver moved, by the site that allocated it. The row without a site has
// memory that no recorded call allocated.
struct Managed : OnDevice {
  Origin origin;
  std::uint64_t allocations = 0;  // allocations that moved, faulted or thrashed
  std::uint64_t bytes = 0;        // of these allocations
  std::uint64_t migrated_bytes = 0;
  std::uint64_t to_device_bytes = 0;
  std::uint64_t to_host_bytes = 0;
  std::uint64_t between_devices_bytes = 0;
  std::uint64_t migrations = 0;
  std::uint64_t migration_time_ns = 0;
  std::uint64_t cpu_faults = 0;
  std::uint64_t gpu_faults = 0;
  std::uint64_t thrashing = 0;  // the driver's reports of thrashing
  // The smaller of the bytes that one allocation moved to the device and to the host, divided by
  // its size. The allocation is the one that moved most both ways.
  std::optional<double> round_trips;
  std::uint64_t round_trip_bytes = 0;  // that allocation's size

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device);
    Origin::fields(self.origin, v);
    GPUMEMTRACE_KEYS(v, allocations, bytes, migrated_bytes, to_device_bytes, to_host_bytes,
                     between_devices_bytes, migrations, migration_time_ns, cpu_faults, gpu_faults,
                     thrashing);
    v.or_zero("round_trips", self.round_trips);
    v("round_trip_bytes", self.round_trip_bytes);
  }
};

}  // namespace gpumemtrace::analyzer::rows
