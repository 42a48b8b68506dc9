// SPDX-License-Identifier: Apache-2.0
// The pools of the framework's allocator and of the driver: pools[].
#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// A program that captures CUDA graphs again and again has a pool for each; pools beyond this number
// are summed in one row.
constexpr std::size_t kMostPrivatePools = 256;

struct NumberedPool {
  std::uint32_t id = 0;
  const PrivatePool* pool = nullptr;
};

// The framework's private pools on a device, largest first; of equal ones, the oldest first.
std::vector<NumberedPool> private_pools_of(const Framework& framework, std::int32_t device) {
  std::vector<NumberedPool> list;
  framework.pools().for_each([&](std::uint32_t id, const PrivatePool& pool) {
    if (pool.device == device && pool.peak.reserved != 0) list.push_back({id, &pool});
  });
  std::ranges::stable_sort(list, std::greater(), [](const NumberedPool& numbered) {
    return numbered.pool->peak.reserved;
  });
  return list;
}

rows::PoolRow row_of(const ReportContext& context, const ReportProcess& process,
                     std::int32_t device, const std::string& name) {
  auto row = context.row_on<rows::PoolRow>(process, device);
  row.id = process.id + ':' + row.device.value_or("unknown") + ':' + name;
  return row;
}

void set_origin(const ReportContext& context, const ReportProcess& process, const CallSite& site,
                rows::PoolRow& row) {
  if (site == CallSite{}) return;
  const Identity identity = context.identity_of_site(process, site);
  row.made_at = site_row(identity);
  row.stack = rows::text_or_none(identity.stack);
}

void add_numbers(const PrivatePool& pool, const PoolBytes& at_peak, rows::PoolRow& row) {
  row.graphs = row.graphs.value_or(0) + pool.captures;
  row.reserved_peak_bytes += pool.peak.reserved;
  row.allocated_peak_bytes += pool.peak.allocated;
  row.reserved_bytes_at_peak = row.reserved_bytes_at_peak.value_or(0) + at_peak.reserved;
  row.allocated_bytes_at_peak = row.allocated_bytes_at_peak.value_or(0) + at_peak.allocated;
  row.allocated_bytes_after_capture =
      row.allocated_bytes_after_capture.value_or(0) + pool.allocated_after_capture;
  row.live_graphs_at_end = row.live_graphs_at_end.value_or(0) + pool.live_graphs;
}

// The row of the framework's default pool: the device's bytes that are in no private pool.
// `in_private` are the bytes of private pools at the device's peak.
rows::PoolRow default_row(const ReportContext& context, const ReportProcess& process,
                          const FrameworkDevice& framework, const PoolBytes& in_private,
                          bool has_private) {
  rows::PoolRow row = row_of(context, process, framework.device, "default");
  // The basis stays kInferred: the default pool is taken to have all that no private pool has.
  row.kind = rows::PoolKind::kDefault;
  row.allocated_peak_bytes =
      has_private ? framework.default_pool_peak.allocated : framework.blocks->peak.bytes();
  row.reserved_peak_bytes =
      has_private ? framework.default_pool_peak.reserved : framework.reserved_peak_bytes;
  if (framework.peak_is_restored) return row;
  row.reserved_bytes_at_peak =
      framework.reserved_peak_bytes - std::min(framework.reserved_peak_bytes, in_private.reserved);
  row.allocated_bytes_at_peak =
      framework.allocated_at_peak - std::min(framework.allocated_at_peak, in_private.allocated);
  return row;
}

// Adds the rows of the default pool and of the private pools; the last row sums the private pools
// beyond kMostPrivatePools.
void add_framework_pools(const ReportContext& context, const ReportProcess& process,
                         const FrameworkDevice& framework, std::vector<rows::PoolRow>& list) {
  const PrivatePools& pools = process.model().memory().framework.pools();
  const std::vector<NumberedPool> numbered =
      private_pools_of(process.model().memory().framework, framework.device);
  PoolBytes in_private;
  std::vector<rows::PoolRow> own;
  for (const auto& [id, pool] : numbered) {
    const PoolBytes at_peak = pools.at_mark(id);
    in_private.reserved += at_peak.reserved;
    in_private.allocated += at_peak.allocated;
    const bool is_further = own.size() >= kMostPrivatePools;
    if (own.size() <= kMostPrivatePools) {
      const std::string name = is_further ? "private" : "graph" + std::to_string(id);
      own.push_back(row_of(context, process, framework.device, name));
      own.back().kind = is_further ? rows::PoolKind::kPrivate : rows::PoolKind::kGraph;
    }
    rows::PoolRow& row = own.back();
    add_numbers(*pool, at_peak, row);
    if (framework.peak_is_restored) row.reserved_bytes_at_peak = row.allocated_bytes_at_peak = {};
    if (is_further) continue;
    set_origin(context, process, pool->made_at, row);
    row.time_ns = process.time_ns(pool->time);
  }
  list.push_back(default_row(context, process, framework, in_private, !numbered.empty()));
  std::ranges::move(own, std::back_inserter(list));
}

// The most bytes allocated from each driver pool, by the pool's index. If a pool has several kinds
// of memory, their peaks are added.
std::map<std::uint32_t, std::uint64_t> most_allocated(const Accounts& accounts) {
  std::map<std::uint32_t, std::uint64_t> most;
  for (const UsageRow& row : accounts.rows()) {
    if (row.account->level == Level::kPool) most[row.pool] += row.peak_bytes;
  }
  return most;
}

// Adds rows for the driver's pools: each device's default pool first, then the pools that the
// program made, in the order in which it made them.
void add_driver_pools(const ReportContext& context, const ReportProcess& process,
                      std::vector<rows::PoolRow>& list) {
  const auto& pools = process.model().memory().pools.pools();
  std::map<std::uint32_t, std::uint64_t> most_of_pool = most_allocated(process.model().accounts());
  std::map<std::tuple<std::int32_t, bool, std::uint64_t, std::uint32_t>, std::uint64_t> allocated;
  for (std::uint32_t i = 1; i < pools.size(); ++i) {
    const PoolState& pool = pools[i];
    const std::uint64_t most = most_of_pool[i];
    const bool is_used = most != 0 || pool.reserved_peak_bytes != 0;
    if (pool.is_imported || pool.device < 0 || !is_used) continue;
    allocated[{pool.device, !pool.is_default, pool.created_time, i}] = most;
  }
  std::size_t made = 0;
  for (const auto& [key, most] : allocated) {
    const PoolState& pool = pools[std::get<3>(key)];
    const std::string name = pool.is_default ? "default" : "pool" + std::to_string(++made);
    rows::PoolRow row = row_of(context, process, pool.device, "driver:" + name);
    row.kind = rows::PoolKind::kDriver;
    // Without a sample of the driver, only a lower bound is known: a pool holds at least the bytes
    // allocated from it.
    row.basis = pool.sampled ? rows::RowBasis::kExact : rows::RowBasis::kInferred;
    set_origin(context, process, pool.created_at, row);
    row.reserved_peak_bytes = std::max(pool.reserved_peak_bytes, most);
    row.allocated_peak_bytes = most;
    row.time_ns = process.time_ns(pool.created_time);
    list.push_back(std::move(row));
  }
}

}  // namespace

std::vector<rows::PoolRow> report_pools(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::PoolRow>& list) {
    for (const auto& [device, framework] : process.model().memory().framework.devices()) {
      if (framework.reserved_peak_bytes == 0) continue;
      add_framework_pools(context, process, framework, list);
    }
    add_driver_pools(context, process, list);
  };
  return context.gather<rows::PoolRow>(add_rows);
}

}  // namespace gpumemtrace::analyzer
