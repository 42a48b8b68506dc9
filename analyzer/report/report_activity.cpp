// SPDX-License-Identifier: Apache-2.0
// Rows of what CUPTI collected: its own state, and the migrations and page faults of managed
// memory.
#include <algorithm>
#include <cmath>
#include <string>

#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string_view name_of_mode(trace::ActivityMode mode) {
  switch (mode) {
    case trace::ActivityMode::kCopies:
      return "copies";
    case trace::ActivityMode::kFull:
      return "full";
    case trace::ActivityMode::kLost:
      return "lost";
    case trace::ActivityMode::kOff:
      break;
  }
  return "off";
}

std::string_view state_of(const ActivityStatus& status) {
  return is_collecting(status.mode) && status.is_shared ? "shared" : name_of_mode(status.mode);
}

rows::CuptiJoin join_row(const Activity& activity) {
  const JoinCounts& counts = activity.counts();
  rows::CuptiJoin join;
  join.calls = counts.calls;
  join.api_records = counts.api_records;
  join.joined_exact = counts.exact;
  join.joined_inferred = counts.inferred;
  join.unjoined = counts.all_unjoined();
  for (std::size_t i = 0; i < kUnjoinedReasons; ++i) {
    if (counts.unjoined[i] == 0) continue;
    join.unjoined_by_reason.emplace_back(name_of(static_cast<Unjoined>(i)), counts.unjoined[i]);
  }
  return join;
}

}  // namespace

rows::Cupti cupti_row(const ReportProcess& process) {
  const Activity& activity = process.model().activity();
  const ActivityStatus& status = activity.status();
  rows::Cupti row;
  if (!activity.is_on()) {
    row.state = "off";
    row.reason = "this trace holds no CUPTI records";
    return row;
  }
  row.state = state_of(status);
  row.reason = rows::text_or_none(status.reason);
  if (status.version != 0) row.version = std::to_string(status.version);
  if (status.widest_mode != trace::ActivityMode::kOff) {
    row.mode = name_of_mode(status.widest_mode);
    row.join = join_row(activity);
  }
  if (!activity.clocks().empty()) {
    row.clock_error_ns = process.duration_ns(
        std::max(activity.clocks().error_ticks(), activity.counts().largest_violation_ticks));
  }
  return row;
}

std::vector<rows::Stream> report_streams(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Stream>& list) {
    for (const auto& [key, copies] : process.model().activity().streams()) {
      list.push_back({{process.id, context.device_id(process, key.device)},
                      key.context,
                      key.stream,
                      copies.count,
                      copies.bytes,
                      process.duration_ns(copies.gpu_ticks)});
    }
  };
  return context.gather<rows::Stream>(add_rows);
}

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

// The number of times that managed memory migrated and came back: the bytes of round trips, divided
// by the size of the allocation.
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
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Managed>& list) {
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
    if (managed.elsewhere().empty()) return;
    ManagedRow elsewhere;
    elsewhere.sums.counts = managed.elsewhere();
    list.push_back(managed_row(context, process, Identity(), elsewhere));
  };
  return context.gather<rows::Managed>(add_rows);
}

std::vector<rows::PoolActivity> report_pool_activity(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::PoolActivity>& list) {
    const ledger::MappedArray<PoolState>& known = process.model().memory().pools.pools();
    for (const auto& [handle, pool] : process.model().activity().pools()) {
      const auto same = std::ranges::find(known, handle, &PoolState::handle);
      auto row = context.row_on<rows::PoolActivity>(process, pool.device);
      row.records = pool.records;
      row.reserved_peak_bytes = pool.reserved_peak_bytes;
      row.used_peak_bytes = pool.used_peak_bytes;
      if (same != known.end()) row.sampled_reserved_peak_bytes = same->reserved_peak_bytes;
      list.push_back(std::move(row));
    }
  };
  return context.gather<rows::PoolActivity>(add_rows);
}

}  // namespace gpumemtrace::analyzer
