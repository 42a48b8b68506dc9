// SPDX-License-Identifier: Apache-2.0
// How the framework's and the pools' free memory lies.
#include <algorithm>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxPins = 10;

Json share_json(const Fragmentation& fragmentation) {
  if (fragmentation.free_bytes == 0) return nullptr;
  return 1.0 - static_cast<double>(fragmentation.largest_free_bytes) /
                   static_cast<double>(fragmentation.free_bytes);
}

Json pinned_by_json(const ReportContext& context, const ReportProcess& process,
                    const std::map<std::uint32_t, Pin>& pins) {
  // The largest first, so that its stack stands for its row.
  std::vector<std::pair<std::uint32_t, Pin>> groups(pins.begin(), pins.end());
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second.stranded_bytes > b.second.stranded_bytes;
  });
  std::map<Identity, Pin> by_identity;
  for (const auto& [group, pin] : groups) {
    Pin& sum = by_identity[context.identity_of(process, {group, false})];
    sum.held_bytes += pin.held_bytes;
    sum.stranded_bytes += pin.stranded_bytes;
  }
  std::vector<Json> rows;
  for (const auto& [identity, pin] : by_identity) {
    rows.push_back({{"bytes_held", pin.held_bytes},
                    {"bytes_stranded", pin.stranded_bytes},
                    {"owner", owner_json(identity)},
                    {"site", site_json(identity)},
                    {"stack", stack_json(identity)}});
  }
  Json sorted = sorted_rows(std::move(rows), "bytes_stranded");
  while (sorted.size() > kMaxPins) sorted.erase(sorted.size() - 1);
  return sorted;
}

Json framework_row(const ReportContext& context, const ReportProcess& process, std::int32_t device,
                   const char* at, std::uint64_t time, const Fragmentation& fragmentation) {
  Json row = {{"process", process.id},
              {"device", context.device_id(process, device)},
              {"level", name_of(Level::kFramework)},
              {"at", at},
              {"time_ns", process.time_ns(time)},
              {"reserved_bytes", fragmentation.reserved_bytes},
              {"allocated_bytes", fragmentation.allocated_bytes},
              {"free_bytes", fragmentation.free_bytes},
              {"largest_free_bytes", fragmentation.largest_free_bytes},
              {"releasable_bytes", fragmentation.releasable_bytes},
              {"stranded_bytes", fragmentation.stranded_bytes},
              {"external_fragmentation", share_json(fragmentation)},
              {"pinned_by", pinned_by_json(context, process, fragmentation.pins)}};
  mark_inexact(row, process.inexact.memory || process.inexact.framework);
  return row;
}

void add_framework(const ReportContext& context, const ReportProcess& process,
                   const FrameworkDevice& framework, Json& rows) {
  const ProcessModel& model = process.model();
  const std::int32_t device = framework.device;
  const PeakSnapshot& peak = framework.blocks->peak;
  if (peak.happened() && !peak.is_restored()) {
    rows.push_back(framework_row(context, process, device, "peak", peak.time(),
                                 model.fragmentation_at(peak, device)));
  }
  for (const OomSnapshot& snapshot : model.snapshots()) {
    if (snapshot.device != device || !snapshot.fragmentation) continue;
    rows.push_back(framework_row(context, process, device, "oom", snapshot.parts.time,
                                 *snapshot.fragmentation));
  }
  if (framework.worst.happened()) {
    rows.push_back(framework_row(context, process, device, "worst", framework.worst.time(),
                                 model.fragmentation_at(framework.worst, device)));
  }
  rows.push_back(framework_row(context, process, device, "end", model.course().last_time,
                               model.fragmentation_now(device)));
}

// The pools of one device.
struct DevicePools {
  bool sampled = true;           // the driver told of all of them
  std::uint64_t peak_bytes = 0;  // sum of the highest points, which need not be those of one moment
};

// The driver tells how much a pool holds, not how it lies.
Json pool_row(const ReportContext& context, const ReportProcess& process, std::int32_t device,
              const char* at, std::uint64_t time, std::uint64_t used_bytes, Json reserved_bytes) {
  Json free_bytes = nullptr;
  if (!reserved_bytes.is_null()) free_bytes = reserved_bytes.get<std::uint64_t>() - used_bytes;
  return {{"process", process.id},
          {"device", context.device_id(process, device)},
          {"level", name_of(Level::kPool)},
          {"at", at},
          {"time_ns", process.time_ns(time)},
          {"reserved_bytes", std::move(reserved_bytes)},
          {"allocated_bytes", used_bytes},
          {"free_bytes", std::move(free_bytes)},
          {"largest_free_bytes", nullptr},
          {"releasable_bytes", nullptr},
          {"stranded_bytes", nullptr},
          {"external_fragmentation", nullptr},
          {"pinned_by", Json::array()}};
}

void add_pools(const ReportContext& context, const ReportProcess& process, Json& rows) {
  const ProcessModel& model = process.model();
  std::map<std::int32_t, DevicePools> devices;
  for (const PoolState& pool : model.pools().pools()) {
    if (pool.device < 0 || pool.is_imported) continue;
    DevicePools& pools = devices[pool.device];
    pools.sampled = pools.sampled && pool.sampled;
    pools.peak_bytes += pool.reserved_peak_bytes;
  }
  for (const auto& [device, pools] : devices) {
    const PoolSums& sums = model.pools().sums_of(device);
    if (pools.sampled && sums.most.time != 0) {
      Json peak = pool_row(context, process, device, "peak", sums.most.time, sums.most.used_bytes,
                           sums.most.reserved_bytes);
      // Between two samples they may have held more.
      const bool was_seen = sums.most.reserved_bytes == pools.peak_bytes;
      mark_inexact(peak, process.inexact.memory || !was_seen);
      rows.push_back(std::move(peak));
    }
    Json end = pool_row(context, process, device, "end", model.course().last_time, sums.used_bytes,
                        pools.sampled ? Json(sums.reserved_bytes) : Json(nullptr));
    mark_inexact(end, process.inexact.memory);
    rows.push_back(std::move(end));
  }
}

}  // namespace

Json report_fragmentation(const ReportContext& context) {
  Json rows = Json::array();
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [device, framework] : process.model().framework().devices()) {
      add_framework(context, process, framework, rows);
    }
    add_pools(context, process, rows);
  }
  return rows;
}

}  // namespace gpumemtrace::analyzer
