// SPDX-License-Identifier: Apache-2.0
// Migrations and faults of managed memory, counted by the allocation in which they happened.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "analyzer/model/activity/activity_clocks.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

struct ManagedCounts {
  std::uint64_t to_device_bytes = 0;
  std::uint64_t to_host_bytes = 0;
  std::uint64_t between_devices_bytes = 0;
  std::uint64_t migrations = 0;
  std::uint64_t migration_ticks = 0;
  std::uint64_t cpu_faults = 0;
  std::uint64_t gpu_faults = 0;
  std::uint64_t thrashing = 0;  // how often the driver reported thrashing

  void add(const ManagedCounts& more);
  [[nodiscard]] bool empty() const {
    return migrations == 0 && cpu_faults == 0 && gpu_faults == 0 && thrashing == 0;
  }
};

// Traffic of those allocations of one group that had any.
struct ManagedSums {
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;  // sum of the sizes of the allocations
  ManagedCounts counts;
  // The allocation with the most bytes that went to a device and came back to the host.
  std::uint64_t worst_bytes = 0;
  std::uint64_t worst_round_trip_bytes = 0;  // bytes of the direction with fewer bytes
};

// Records come up to seconds late, so an allocation is kept for a while after its free.
class ManagedTraffic {
 public:
  void allocate(std::uint64_t address, std::uint64_t bytes, std::uint32_t group,
                std::uint64_t ticks);
  void free(std::uint64_t address);
  // `time`: nullopt if CUPTI's clock is not known.
  void apply(const trace::ActivityManaged& record, const std::optional<TickSpan>& time);
  void finish();

  [[nodiscard]] const std::map<std::uint32_t, ManagedSums>& by_group() const { return by_group_; }
  // Traffic outside of all known allocations: in managed globals, or in allocations made before the
  // trace.
  [[nodiscard]] const ManagedCounts& elsewhere() const { return elsewhere_; }

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t born = 0;  // ticks at the allocation
    std::uint32_t group = 0;
    bool is_freed = false;
    ManagedCounts counts;
    [[nodiscard]] bool contains(std::uint64_t address) const {
      return begin <= address && address < end;
    }
  };

  [[nodiscard]] ManagedCounts& counts_at(std::uint64_t address, std::uint64_t ticks);
  void retire(const Range& range);
  void add_to_group_sums(const Range& range);

  std::map<std::uint64_t, Range> ranges_;  // ranges by begin; they do not overlap
  std::deque<std::uint64_t> freed_;        // begins of freed ranges, the oldest first
  std::deque<Range> replaced_;             // ranges whose addresses were handed out again
  std::map<std::uint32_t, ManagedSums> by_group_;
  ManagedCounts elsewhere_;
};

}  // namespace gpumemtrace::analyzer
