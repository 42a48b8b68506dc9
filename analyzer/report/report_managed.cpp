// SPDX-License-Identifier: Apache-2.0
// Managed memory that the driver migrated, by the site that allocated it.
#include <algorithm>
#include <cmath>
#include <string>

#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_key.hpp"

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

// The number of times that as many bytes as the allocation has went up and came down again.
std::optional<double> round_trips_of(const ManagedSums& sums) {
  if (sums.worst_bytes == 0) return std::nullopt;
  const double times =
      static_cast<double>(sums.worst_round_trip_bytes) / static_cast<double>(sums.worst_bytes);
  return std::round(times * 100) / 100;
}

rows::Managed managed_row(const ReportContext& context, const ReportProcess& process,
                          const Identity& identity, const ManagedRow& sum) {
  const ManagedCounts& counts = sum.sums.counts;
  auto row = context.row_on<rows::Managed>(process, sum.device);
  row.origin = origin_with_stack(identity, sum.stack);
  row.allocations = sum.sums.allocations;
  row.bytes = sum.sums.bytes;
  row.migrated_bytes = counts.to_device_bytes + counts.to_host_bytes + counts.between_devices_bytes;
  row.to_device_bytes = counts.to_device_bytes;
  row.to_host_bytes = counts.to_host_bytes;
  row.between_devices_bytes = counts.between_devices_bytes;
  row.migrations = counts.migrations;
  row.migration_time_ns = process.duration_ns(counts.migration_ticks);
  row.cpu_faults = counts.cpu_faults;
  row.gpu_faults = counts.gpu_faults;
  row.thrashing = counts.thrashing;
  row.round_trips = round_trips_of(sum.sums);
  row.round_trip_bytes = sum.sums.worst_bytes;
  return row;
}

}  // namespace

std::vector<rows::Managed> report_managed(const ReportContext& context) {
  std::vector<rows::Managed> list;
  for (const ReportProcess& process : context.processes()) {
    const ManagedTraffic& managed = process.model().activity().managed();
    std::map<Identity, ManagedRow> by_identity;
    for (const auto& [group, sums] : managed.by_group()) {
      Identity identity = context.identity_of(process, {group, false, {}});
      const std::string stack = take_stack(identity);
      ManagedRow& row = by_identity[identity];
      if (row.sums.allocations == 0) {
        row.stack = stack;
        row.device = process.model().accounts().group(group).key.device;
      }
      add(row.sums, sums);
    }
    for (const auto& [identity, row] : by_identity) {
      list.push_back(managed_row(context, process, identity, row));
    }
    if (managed.elsewhere().empty()) continue;
    ManagedRow elsewhere;
    elsewhere.sums.counts = managed.elsewhere();
    list.push_back(managed_row(context, process, Identity(), elsewhere));
  }
  sort_rows(list, &rows::Managed::migrated_bytes);
  return list;
}

}  // namespace gpumemtrace::analyzer
