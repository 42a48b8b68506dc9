// SPDX-License-Identifier: Apache-2.0
// The use of each allocator layer, and the holders of live memory of a job that still runs.
#include <algorithm>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/report/category_sums.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The library whose own pool most of the row's memory went to, if the trace cannot see into that
// pool. A pool keeps the memory that it takes: if most was given back, the library only passes
// requests on.
std::optional<rows::OpaquePool> opaque_pool_of(const ReportContext& context,
                                               const ReportProcess& process, const UsageRow& row) {
  if (level_of(row.kind) != Level::kDriver || row.frees > row.allocations / 2) {
    return std::nullopt;
  }
  std::map<std::string, std::uint64_t> bytes_of_owner;
  for (const Group& group : process.model().accounts().groups()) {
    if (group.key.kind != row.kind || group.key.device != row.device) continue;
    const Identity identity = context.identity_of_site(process, group.key.site);
    bytes_of_owner[identity.owner] += group.allocated_bytes;
  }
  for (const auto& [owner, bytes] : bytes_of_owner) {
    const OpaquePool& pool = framework_named(owner).opaque_pool;
    if (!pool.name.empty() && bytes > row.allocated_bytes / 2) {
      return rows::OpaquePool{std::string(pool.name), std::string(pool.setting)};
    }
  }
  return std::nullopt;
}

// The number of requests to the framework on this device that ran out of memory.
std::uint64_t framework_out_of_memory_count(const ProcessModel& model, std::int32_t device) {
  std::uint64_t count = 0;
  for (const OomRow& row : model.memory().out_of_memory.rows()) {
    if (row.first.level == Level::kFramework && row.first.device == device) count += row.count;
  }
  return count;
}

rows::Reserved framework_reserved(const ProcessModel& model, std::int32_t device) {
  const FrameworkDevice* framework = model.memory().framework.find(device);
  if (framework == nullptr) return {};
  return {framework->reserved_peak_bytes, framework->reserved_bytes(),
          framework->segments_allocated, framework->segments_freed, std::nullopt};
}

// The names of the driver's pools, by index; 0 is an unknown pool. Pools that the program made are
// numbered in the order in which it made them.
std::vector<std::string> pool_names(const ledger::MappedArray<PoolState>& pools) {
  std::vector<std::string> names{"pool 0"};
  std::size_t made = 0;
  for (std::uint32_t i = 1; i < pools.size(); ++i) {
    names.push_back(pools[i].is_default ? "default" : "pool " + std::to_string(++made));
  }
  return names;
}

rows::Reserved pool_reserved(const PoolState& pool, const std::string& name) {
  rows::Reserved reserved;
  // Without a sample of the driver only a lower bound of the reserved bytes is known, so none is
  // given.
  if (pool.sampled) {
    reserved.peak_bytes = pool.reserved_peak_bytes;
    reserved.bytes_at_end = pool.reserved_bytes;
  }
  reserved.pool = name;
  return reserved;
}

rows::Usage usage_row(const ReportContext& context, const ReportProcess& process,
                      const UsageRow& row, const std::vector<std::string>& names_of_pools) {
  const ProcessModel& model = process.model();
  auto usage = context.row_on<rows::Usage>(process, row.device);
  usage.level = level_of(row.kind);
  usage.kind = row.kind;
  usage.allocations = row.allocations;
  usage.frees = row.frees;
  usage.failed = row.failed;
  usage.allocated_bytes_total = row.allocated_bytes;
  usage.peak_bytes = row.peak_bytes;
  usage.peak_time_ns = process.time_ns(row.peak_time);
  usage.live_bytes_at_end = row.bytes;
  usage.live_count_at_end = row.count;
  usage.largest_bytes = row.largest_bytes;
  usage.opaque_pool = opaque_pool_of(context, process, row);
  if (usage.level == Level::kFramework) {
    usage.failed = framework_out_of_memory_count(model, row.device);
    usage.reserved = framework_reserved(model, row.device);
  }
  if (usage.level == Level::kPool) {
    usage.reserved =
        pool_reserved(model.memory().pools.pools()[row.pool], names_of_pools.at(row.pool));
  }
  usage.is_exact = !is_inexact(process, usage.level);
  return usage;
}

struct OwnerSums {
  std::uint64_t bytes_at_peak = 0;
  std::uint64_t bytes_at_end = 0;
  std::uint64_t allocations = 0;
};

// Counts allocations by owner. The framework is the owner of its segments, whichever code's request
// made it ask the driver for them.
void count_allocations(const ReportContext& context, const ReportProcess& process,
                       const Account& account, std::map<std::string, OwnerSums>& owners) {
  const ProcessModel& model = process.model();
  for (std::uint32_t i = 0; i < model.accounts().groups().size(); ++i) {
    const Group& group = model.accounts().groups()[i];
    if (model.accounts().row_of(i).account != &account) continue;
    const std::uint64_t segments = std::min(group.segments, group.allocations);
    const std::string owner = context.identity_of(process, {i, false}).owner;
    if (group.allocations != segments) owners[owner].allocations += group.allocations - segments;
    if (segments != 0) {
      owners[std::string(framework_with_blocks().owner)].allocations += segments;
    }
  }
}

template <class Visit>
void for_each_peak(const ReportProcess& process, Visit&& visit) {
  for (const Account& account : process.model().accounts().accounts()) {
    if (is_own_memory(account.level) && account.peak.happened()) visit(account);
  }
}

// The row of the peak of an account (one level on one device), without the holders of the memory.
rows::Peak peak_row(const ReportContext& context, const ReportProcess& process,
                    const Account& account) {
  auto row = context.row_on<rows::Peak>(process, account.device);
  row.level = account.level;
  row.bytes = account.peak.bytes();
  row.time_ns = process.time_ns(account.peak.time());
  row.step = process.model().program().steps().step_at(account.peak.time());
  row.is_exact = !is_inexact(process, account.level);
  return row;
}

}  // namespace

std::vector<rows::Usage> report_usage(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Usage>& list) {
    const std::vector<std::string> names_of_pools =
        pool_names(process.model().memory().pools.pools());
    for (const UsageRow& row : process.model().accounts().rows()) {
      if (level_of(row.kind) == Level::kMapping) continue;
      if (row.allocations == 0 && row.failed == 0) continue;
      list.push_back(usage_row(context, process, row, names_of_pools));
    }
  };
  return context.gather<rows::Usage>(add_rows);
}

std::vector<rows::Peak> report_peak_bytes(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Peak>& list) {
    for_each_peak(process, [&](const Account& account) {
      list.push_back(peak_row(context, process, account));
    });
  };
  return context.gather<rows::Peak>(add_rows);
}

std::vector<rows::Peak> report_peak(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Peak>& list) {
    const ProcessModel& model = process.model();
    for_each_peak(process, [&](const Account& account) {
      const Holders holders = model.holders().at(account.peak, account.level, account.device);
      rows::Peak row = peak_row(context, process, account);
      row.holders = holder_rows(context.tally(process, holders), account.peak.bytes());
      if (account.level == Level::kFramework) {
        row.categories = categories_of(holders).row();
        if (!model.program().tensor_names().empty())
          row.categories_exact = exact_categories_of(holders);
      }
      list.push_back(std::move(row));
    });
  };
  return context.gather<rows::Peak>(add_rows);
}

std::vector<rows::Owner> report_owners(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Owner>& list) {
    const ProcessModel& model = process.model();
    for (const Account& account : model.accounts().accounts()) {
      if (!is_own_memory(account.level)) continue;
      std::map<std::string, OwnerSums> owners;
      count_allocations(context, process, account, owners);
      const auto at_peak =
          context.tally(process, model.holders().at(account.peak, account.level, account.device));
      for (const auto& [identity, tally] : at_peak) {
        owners[identity.owner].bytes_at_peak += tally.bytes;
      }
      const auto at_end =
          context.tally(process, model.memory().live_now(account.level, account.device));
      for (const auto& [identity, tally] : at_end) {
        owners[identity.owner].bytes_at_end += tally.bytes;
      }
      for (const auto& [owner, sums] : owners) {
        list.push_back({{{process.id, context.device_id(process, account.device)}, account.level},
                        rows::text_or_none(owner),
                        sums.bytes_at_peak,
                        sums.bytes_at_end,
                        sums.allocations});
      }
    }
  };
  return context.gather<rows::Owner>(add_rows);
}

std::vector<rows::BlockAt> report_live_memory(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::BlockAt>& list) {
    const ProcessModel& model = process.model();
    const std::uint64_t now_ns = process.known_time_ns(model.statistics().last_time);
    for (const Account& account : model.accounts().accounts()) {
      if (account.level == Level::kMapping) continue;
      const Holders holders =
          model.holders().at(PeakSnapshot::now(), account.level, account.device);
      for (const auto& [holder, tally] : holders) {
        const Identity identity = context.identity_of(process, holder);
        auto row = context.row_on<rows::BlockAt>(process, account.device);
        row.level = account.level;
        row.bytes = tally.bytes;
        row.start_ns = process.known_time_ns(tally.first_time);
        row.category = holder.guess.category;
        row.category_confidence = holder.guess.confidence;
        row.layers = rows::text_or_none(identity.layers);
        row.origin = origin_of(identity);
        row.at = rows::BlocksAt::kTime;
        row.time_ns = now_ns;
        list.push_back(std::move(row));
      }
    }
  };
  return context.gather<rows::BlockAt>(add_rows);
}

}  // namespace gpumemtrace::analyzer
