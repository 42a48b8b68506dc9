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
  const Moment& peak = framework.blocks->peak;
  if (peak.happened() && !peak.is_told()) {
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

// The driver tells how much a pool holds, not how it lies.
void add_pools(const ReportContext& context, const ReportProcess& process, Json& rows) {
  const ProcessModel& model = process.model();
  std::map<std::int32_t, bool> sampled;
  for (const PoolState& pool : model.pools().pools()) {
    if (pool.device < 0 || pool.sums == nullptr) continue;
    const auto [found, added] = sampled.try_emplace(pool.device, pool.sampled);
    if (!added) found->second = found->second && pool.sampled;
  }
  for (const auto& [device, all_sampled] : sampled) {
    const auto [used, reserved] = model.pools().sums_of(device);
    const std::uint64_t cached = reserved - used;
    const bool is_known = all_sampled;
    const auto known = [is_known](std::uint64_t bytes) {
      return is_known ? Json(bytes) : Json(nullptr);
    };
    Json row = {{"process", process.id},
                {"device", context.device_id(process, device)},
                {"level", name_of(Level::kPool)},
                {"at", "end"},
                {"time_ns", process.time_ns(model.course().last_time)},
                {"reserved_bytes", known(reserved)},
                {"allocated_bytes", used},
                {"free_bytes", known(cached)},
                {"largest_free_bytes", nullptr},
                {"releasable_bytes", nullptr},
                {"stranded_bytes", nullptr},
                {"external_fragmentation", nullptr},
                {"pinned_by", Json::array()}};
    mark_inexact(row, process.inexact.memory);
    rows.push_back(std::move(row));
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
