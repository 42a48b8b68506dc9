// SPDX-License-Identifier: Apache-2.0
// Managed memory that moves: what the driver migrated, by who allocated it.
#include <algorithm>
#include <cmath>
#include <string>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct ManagedRow {
  std::int32_t device = kUnknownDevice;
  std::string stack;
  ManagedSums sums;
};

void add(ManagedSums& sum, const ManagedSums& more) {
  sum.allocations += more.allocations;
  sum.bytes += more.bytes;
  sum.counts.add(more.counts);
  if (more.worst_round_trip_bytes <= sum.worst_round_trip_bytes) return;
  sum.worst_round_trip_bytes = more.worst_round_trip_bytes;
  sum.worst_bytes = more.worst_bytes;
}

// How often as many bytes as the allocation has went up and came down again.
Json round_trips_json(const ManagedSums& sums) {
  if (sums.worst_bytes == 0) return 0;
  const double times =
      static_cast<double>(sums.worst_round_trip_bytes) / static_cast<double>(sums.worst_bytes);
  return std::round(times * 100) / 100;
}

Json row_json(const ReportContext& context, const ReportProcess& process, const Identity& identity,
              const ManagedRow& row) {
  const ManagedCounts& counts = row.sums.counts;
  return {{"process", process.id},
          {"device", context.device_id(process, row.device)},
          {"owner", owner_json(identity)},
          {"site", site_json(identity)},
          {"stack", text_or_null(row.stack)},
          {"allocations", row.sums.allocations},
          {"bytes", row.sums.bytes},
          {"migrated_bytes",
           counts.to_device_bytes + counts.to_host_bytes + counts.between_devices_bytes},
          {"to_device_bytes", counts.to_device_bytes},
          {"to_host_bytes", counts.to_host_bytes},
          {"between_devices_bytes", counts.between_devices_bytes},
          {"migrations", counts.migrations},
          {"migration_time_ns", process.process->clock().duration_ns(counts.migration_ticks)},
          {"cpu_faults", counts.cpu_faults},
          {"gpu_faults", counts.gpu_faults},
          {"thrashing", counts.thrashing},
          {"round_trips", round_trips_json(row.sums)},
          {"round_trip_bytes", row.sums.worst_bytes}};
}

}  // namespace

Json report_managed(const ReportContext& context) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    const ManagedTraffic& managed = process.model().activity().managed();
    std::map<Identity, ManagedRow> by_identity;
    for (const auto& [group, sums] : managed.by_group()) {
      Identity identity = context.identity_of(process, {group, false, {}});
      const std::string stack = std::move(identity.stack);
      identity.stack.clear();
      ManagedRow& row = by_identity[identity];
      if (row.sums.allocations == 0) {
        row.stack = stack;
        row.device = process.model().accounts().group(group).key.device;
      }
      add(row.sums, sums);
    }
    for (const auto& [identity, row] : by_identity) {
      rows.push_back(row_json(context, process, identity, row));
    }
    if (managed.elsewhere().empty()) continue;
    ManagedRow elsewhere;
    elsewhere.sums.counts = managed.elsewhere();
    rows.push_back(row_json(context, process, Identity(), elsewhere));
  }
  return sorted_rows(std::move(rows), "migrated_bytes");
}

}  // namespace gpumemtrace::analyzer
