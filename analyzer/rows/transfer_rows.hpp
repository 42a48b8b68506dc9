// SPDX-License-Identifier: Apache-2.0
// Rows on copies, memory sets and managed memory that moves.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// How the single copies of a row differ. No value: not known, or a checkpoint has the sums alone.
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

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v.added("min_bytes", self.min_bytes);
    v.added("mean_bytes", self.mean_bytes);
    v.added("max_bytes", self.max_bytes);
    v.added("min_host_ns", self.min_host_ns);
    v.added("mean_host_ns", self.mean_host_ns);
    v.added("max_host_ns", self.max_host_ns);
    v.added("min_gpu_ns", self.min_gpu_ns);
    v.added("mean_gpu_ns", self.mean_gpu_ns);
    v.added("max_gpu_ns", self.max_gpu_ns);
  }
};

struct Copies {
  std::string process;
  OptionalText device;
  Direction direction = Direction::kUnknown;
  MemoryClass source_memory = MemoryClass::kUnknown;
  MemoryClass destination_memory = MemoryClass::kUnknown;
  std::string api;
  bool is_asynchronous = false;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_time_ns = 0;
  OptionalNumber gpu_time_ns;
  std::optional<double> bandwidth_bytes_per_s;
  std::optional<double> link_share;
  bool is_in_graph = false;
  std::uint64_t joined_count = 0;
  std::uint64_t joined_bytes = 0;
  OptionalNumber gpu_busy_ns;
  OptionalNumber overlapped_ns;
  CopySpread spread;
  bool is_exact = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("device", self.device);
    v("direction", self.direction);
    v("source_memory", self.source_memory);
    v("destination_memory", self.destination_memory);
    v("api", self.api);
    v("asynchronous", self.is_asynchronous);
    v("count", self.count);
    v("bytes", self.bytes);
    v("host_time_ns", self.host_time_ns);
    v("gpu_time_ns", self.gpu_time_ns);
    v("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s);
    v("link_share", self.link_share);
    v.added("in_graph", self.is_in_graph);
    v.added("joined_count", self.joined_count);
    v.added("joined_bytes", self.joined_bytes);
    v.added("gpu_busy_ns", self.gpu_busy_ns);
    v.added("overlapped_ns", self.overlapped_ns);
    CopySpread::fields(self.spread, v);
    v.exact(self.is_exact);
  }
};

struct Sets {
  std::string process;
  OptionalText device;
  MemoryClass destination_memory = MemoryClass::kUnknown;
  std::string api;
  bool is_asynchronous = false;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_time_ns = 0;
  OptionalNumber gpu_time_ns;
  bool is_in_graph = false;
  std::uint64_t joined_count = 0;
  bool is_exact = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("device", self.device);
    v("destination_memory", self.destination_memory);
    v("api", self.api);
    v("asynchronous", self.is_asynchronous);
    v("count", self.count);
    v("bytes", self.bytes);
    v("host_time_ns", self.host_time_ns);
    v("gpu_time_ns", self.gpu_time_ns);
    v.added("in_graph", self.is_in_graph);
    v.added("joined_count", self.joined_count);
    v.exact(self.is_exact);
  }
};

// Copies of one stream, by CUPTI's records.
struct Stream {
  std::string process;
  OptionalText device;
  std::uint64_t context = 0;
  std::uint64_t stream = 0;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t gpu_time_ns = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("device", self.device);
    v("context", self.context);
    v("stream", self.stream);
    v("count", self.count);
    v("bytes", self.bytes);
    v("gpu_time_ns", self.gpu_time_ns);
  }
};

// Copies of one site that cost more than they must.
struct Hotspot {
  Rule rule = Rule::kSmallCopies;
  std::string process;
  OptionalText device;
  Direction direction = Direction::kUnknown;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t time_lost_ns = 0;
  OptionalNumber own_time_ns;  // what the remedy could save at most
  OptionalNumber loop_ns;      // from the first copy to the end of the last
  Origin origin;
  std::string advice;
  std::string api;
  MemoryClass source_memory = MemoryClass::kUnknown;
  MemoryClass destination_memory = MemoryClass::kUnknown;
  std::uint64_t mean_bytes = 0;
  std::uint64_t returned_count = 0;  // of the copies, those that brought back what went down
  std::uint64_t returned_bytes = 0;
  std::uint64_t returned_host_ns = 0;
  OptionalNumber returned_up_ns;
  OptionalNumber returned_away_ns;
  OptionalNumber returned_to_same_memory;
  OptionalNumber returned_to_new_memory;
  OptionalLocation down_at;
  OptionalNumber repeated_count;
  OptionalNumber repeated_bytes;
  OptionalNumber gpu_time_ns;
  std::optional<double> bandwidth_bytes_per_s;
  std::optional<double> link_share;
  OptionalNumber overlapped_ns;
  bool is_exact = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("rule", self.rule);
    v("process", self.process);
    v("device", self.device);
    v("direction", self.direction);
    v("count", self.count);
    v("bytes", self.bytes);
    v("time_lost_ns", self.time_lost_ns);
    v.added("own_time_ns", self.own_time_ns);
    v.added("loop_ns", self.loop_ns);
    Origin::fields(self.origin, v);
    v("advice", self.advice);
    v.added("api", self.api);
    v.added("source_memory", self.source_memory);
    v.added("destination_memory", self.destination_memory);
    v.added("mean_bytes", self.mean_bytes);
    v.added("returned_count", self.returned_count);
    v.added("returned_bytes", self.returned_bytes);
    v.added("returned_host_ns", self.returned_host_ns);
    v.added("returned_up_ns", self.returned_up_ns);
    v.added("returned_away_ns", self.returned_away_ns);
    v.added("returned_to_same_memory", self.returned_to_same_memory);
    v.added("returned_to_new_memory", self.returned_to_new_memory);
    v.added("down_at", self.down_at);
    v.added("repeated_count", self.repeated_count);
    v.added("repeated_bytes", self.repeated_bytes);
    v.added("gpu_time_ns", self.gpu_time_ns);
    v.added("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s);
    v.added("link_share", self.link_share);
    v.added("overlapped_ns", self.overlapped_ns);
    v.exact(self.is_exact);
  }
};

// Copies of one line and kind. The last one of a process may be the remainder, `other`.
struct CopySite {
  std::string process;
  OptionalText device;
  std::optional<Direction> direction;
  std::optional<MemoryClass> source_memory;
  std::optional<MemoryClass> destination_memory;
  OptionalText api;
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

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("device", self.device);
    v("direction", self.direction);
    v("source_memory", self.source_memory);
    v("destination_memory", self.destination_memory);
    v("api", self.api);
    v("asynchronous", self.is_asynchronous);
    v("count", self.count);
    v("bytes", self.bytes);
    v("host_time_ns", self.host_time_ns);
    v("gpu_time_ns", self.gpu_time_ns);
    v("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s);
    v("link_share", self.link_share);
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
  OptionalNumber unjoined;  // none where CUPTI was off
  std::vector<Stream> streams;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("by_kind", self.by_kind);
    v.added("sites", self.sites);
    v("hotspots", self.hotspots);
    v("sets", self.sets);
    v("unjoined", self.unjoined);
    v.added("streams", self.streams);
  }
};

// Managed memory that the driver moved, by who allocated it.
struct Managed {
  std::string process;
  OptionalText device;
  Origin origin;
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;
  std::uint64_t migrated_bytes = 0;
  std::uint64_t to_device_bytes = 0;
  std::uint64_t to_host_bytes = 0;
  std::uint64_t between_devices_bytes = 0;
  std::uint64_t migrations = 0;
  std::uint64_t migration_time_ns = 0;
  std::uint64_t cpu_faults = 0;
  std::uint64_t gpu_faults = 0;
  std::uint64_t thrashing = 0;
  // How often as many bytes as one allocation has went up and came down again.
  std::optional<double> round_trips;
  std::uint64_t round_trip_bytes = 0;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("device", self.device);
    Origin::fields(self.origin, v);
    v("allocations", self.allocations);
    v("bytes", self.bytes);
    v("migrated_bytes", self.migrated_bytes);
    v("to_device_bytes", self.to_device_bytes);
    v("to_host_bytes", self.to_host_bytes);
    v("between_devices_bytes", self.between_devices_bytes);
    v("migrations", self.migrations);
    v("migration_time_ns", self.migration_time_ns);
    v("cpu_faults", self.cpu_faults);
    v("gpu_faults", self.gpu_faults);
    v("thrashing", self.thrashing);
    v.or_zero("round_trips", self.round_trips);
    v("round_trip_bytes", self.round_trip_bytes);
  }
};

}  // namespace gpumemtrace::analyzer::rows
