// SPDX-License-Identifier: Apache-2.0
// How much of what kind, the peaks with their holders, and the owners.
#include <algorithm>
#include <array>

#include "analyzer/owners/owners.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The library whose pool most of the row's memory went to, if it is one that the trace cannot see
// into. A pool keeps what it takes: where most was given back, the library passes its requests on.
Json opaque_pool_json(const ReportContext& context, const ReportProcess& process,
                      const UsageRow& row) {
  if (level_of(row.kind) != Level::kDriver || row.frees > row.allocations / 2) return nullptr;
  std::map<std::string, std::uint64_t> bytes_of_owner;
  for (const Group& group : process.model().accounts().groups()) {
    if (group.key.kind != row.kind || group.key.device != row.device) continue;
    const Identity identity = context.identity_of_site(process, group.key.site);
    bytes_of_owner[identity.owner] += group.allocated_bytes;
  }
  for (const auto& [owner, bytes] : bytes_of_owner) {
    const OpaquePool* pool = find_opaque_pool(owner);
    if (pool != nullptr && bytes > row.allocated_bytes / 2) {
      return {{"name", pool->name}, {"setting", pool->setting}};
    }
  }
  return nullptr;
}

std::uint64_t raised_count(const ProcessModel& model, std::int32_t device) {
  std::uint64_t count = 0;
  for (const OomRow& row : model.out_of_memory().rows()) {
    if (row.first.level == Level::kFramework && row.first.device == device) count += row.count;
  }
  return count;
}

void add_framework_fields(Json& json, const ProcessModel& model, std::int32_t device) {
  const FrameworkDevice* framework = model.framework().find(device);
  json["failed"] = raised_count(model, device);
  if (framework == nullptr) {
    json["reserved_peak_bytes"] = nullptr;
    json["reserved_bytes_at_end"] = nullptr;
    json["segments_allocated"] = nullptr;
    json["segments_freed"] = nullptr;
    return;
  }
  json["reserved_peak_bytes"] = framework->reserved_peak_bytes;
  json["reserved_bytes_at_end"] = framework->reserved_bytes();
  json["segments_allocated"] = framework->segments_allocated;
  json["segments_freed"] = framework->segments_freed;
}

// Pools that the program made are counted in the order in which they came.
std::string pool_name(const ledger::MappedArray<PoolState>& pools, std::uint32_t index) {
  if (pools[index].is_default) return "default";
  std::size_t number = 0;
  for (std::uint32_t i = 1; i <= index; ++i) number += pools[i].is_default ? 0 : 1;
  return "pool " + std::to_string(number);
}

void add_pool_fields(Json& json, const ledger::MappedArray<PoolState>& pools, std::uint32_t index) {
  const PoolState& pool = pools[index];
  // Without a word of the driver only a lower bound is known, which is no answer.
  json["reserved_peak_bytes"] = pool.sampled ? Json(pool.reserved_peak_bytes) : Json(nullptr);
  json["reserved_bytes_at_end"] = pool.sampled ? Json(pool.reserved_bytes) : Json(nullptr);
  json["segments_allocated"] = nullptr;
  json["segments_freed"] = nullptr;
  json["pool"] = pool_name(pools, index);
}

Json usage_json(const ReportContext& context, const ReportProcess& process, const UsageRow& row) {
  const ProcessModel& model = process.model();
  const Level level = level_of(row.kind);
  Json json = {{"process", process.id},
               {"device", context.device_id(process, row.device)},
               {"level", name_of(level)},
               {"kind", name_of(row.kind)},
               {"allocations", row.allocations},
               {"frees", row.frees},
               {"failed", row.failed},
               {"allocated_bytes_total", row.allocated_bytes},
               {"peak_bytes", row.peak_bytes},
               {"peak_time_ns", process.time_ns(row.peak_time)},
               {"live_bytes_at_end", row.bytes},
               {"live_count_at_end", row.count},
               {"largest_bytes", row.largest_bytes},
               {"opaque_pool", opaque_pool_json(context, process, row)}};
  if (level == Level::kFramework) add_framework_fields(json, model, row.device);
  if (level == Level::kPool) add_pool_fields(json, model.pools().pools(), row.pool);
  mark_inexact(json, is_inexact(process, level));
  return json;
}

// What the bytes of a peak are for; the numbers sum to it.
Json categories_json(const Holders& holders) {
  std::array<std::uint64_t, kCategories> bytes{};
  for (const auto& [holder, tally] : holders) {
    bytes[static_cast<std::size_t>(holder.verdict.category)] += tally.bytes;
  }
  Json sums = Json::object();
  for (std::size_t i = 1; i < kCategories; ++i) {
    sums[std::string(name_of(static_cast<Category>(i)))] = bytes[i];
  }
  sums["unknown"] = bytes[static_cast<std::size_t>(Category::kUnknown)];
  return sums;
}

}  // namespace

Json report_usage(const ReportContext& context) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    for (const UsageRow& row : process.model().accounts().rows()) {
      if (level_of(row.kind) == Level::kMapping) continue;
      if (row.allocations == 0 && row.failed == 0) continue;
      rows.push_back(usage_json(context, process, row));
    }
  }
  return sorted_rows(std::move(rows), "peak_bytes");
}

Json report_peak(const ReportContext& context) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    const ProcessModel& model = process.model();
    for (const Account& account : model.accounts().accounts()) {
      if (account.level == Level::kMapping || account.level == Level::kImported) continue;
      if (!account.peak.happened()) continue;
      const Holders holders = model.holders_at(account.peak, account.level, account.device);
      Json row = {{"process", process.id},
                  {"device", context.device_id(process, account.device)},
                  {"level", name_of(account.level)},
                  {"bytes", account.peak.bytes()},
                  {"time_ns", process.time_ns(account.peak.time())},
                  {"step", step_json(process, account.peak.time())},
                  {"holders", holders_json(context.tally(process, holders), account.peak.bytes())}};
      if (account.level == Level::kFramework) row["categories"] = categories_json(holders);
      mark_inexact(row, is_inexact(process, account.level));
      rows.push_back(std::move(row));
    }
  }
  return sorted_rows(std::move(rows), "bytes");
}

namespace {

struct OwnerSums {
  std::uint64_t bytes_at_peak = 0;
  std::uint64_t bytes_at_end = 0;
  std::uint64_t allocations = 0;
};

// Segments of the framework are its own, whoever asked the driver for them.
void count_allocations(const ReportContext& context, const ReportProcess& process,
                       const Account& account, std::map<std::string, OwnerSums>& owners) {
  const ProcessModel& model = process.model();
  for (std::uint32_t i = 0; i < model.accounts().groups().size(); ++i) {
    const Group& group = model.accounts().groups()[i];
    if (model.accounts().row_of(i).account != &account) continue;
    const std::uint64_t segments = std::min(group.segments, group.allocations);
    const std::string owner = context.identity_of(process, {i, false}).owner;
    if (group.allocations != segments) owners[owner].allocations += group.allocations - segments;
    if (segments != 0) owners["pytorch"].allocations += segments;
  }
}

}  // namespace

Json report_owners(const ReportContext& context) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    const ProcessModel& model = process.model();
    for (const Account& account : model.accounts().accounts()) {
      if (account.level == Level::kMapping || account.level == Level::kImported) continue;
      std::map<std::string, OwnerSums> owners;
      count_allocations(context, process, account, owners);
      const auto at_peak =
          context.tally(process, model.holders_at(account.peak, account.level, account.device));
      for (const auto& [identity, tally] : at_peak) {
        owners[identity.owner].bytes_at_peak += tally.bytes;
      }
      const auto at_end = context.tally(process, model.live_now(account.level, account.device));
      for (const auto& [identity, tally] : at_end) {
        owners[identity.owner].bytes_at_end += tally.bytes;
      }
      for (const auto& [owner, sums] : owners) {
        rows.push_back({{"process", process.id},
                        {"device", context.device_id(process, account.device)},
                        {"level", name_of(account.level)},
                        {"owner", owner.empty() ? Json(nullptr) : Json(owner)},
                        {"bytes_at_peak", sums.bytes_at_peak},
                        {"bytes_at_end", sums.bytes_at_end},
                        {"allocations", sums.allocations}});
      }
    }
  }
  return sorted_rows(std::move(rows), "bytes_at_peak");
}

}  // namespace gpumemtrace::analyzer
