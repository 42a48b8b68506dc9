// SPDX-License-Identifier: Apache-2.0
// Bytes by stack: the data of flame graphs and other profiles.
#include <algorithm>
#include <array>
#include <set>

#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The number of largest rows by each measure that are shown; the others are one row together.
constexpr std::size_t kMostRowsByMeasure = 300;

constexpr auto kMeasures = std::to_array<std::uint64_t rows::Cost::*>(
    {&rows::Cost::peak_bytes, &rows::Cost::leaked_bytes, &rows::Cost::allocated_bytes,
     &rows::Cost::copied_bytes});

struct CostKey {
  bool is_copy = false;
  Level level = Level::kDriver;  // of memory
  std::string stack;
  Identity identity;
  friend auto operator<=>(const CostKey&, const CostKey&) = default;
};
// Only the measures of each row are filled.
using CostRows = std::map<CostKey, rows::Cost>;
using CostRow = CostRows::value_type;

CostRows rows_of(const ReportContext& context, const ReportProcess& process) {
  const ProcessModel& model = process.model();
  CostRows rows;
  const auto costs_of = [&](const HolderKey& holder) -> rows::Cost& {
    const Level level = level_of(model.accounts().group(holder.group).key.kind);
    const Identity identity = context.identity_of(process, holder);
    return rows[{false, level, identity.stack, identity}];
  };
  for (const Account& account : model.accounts().accounts()) {
    if (!is_own_memory(account.level)) continue;
    for (const auto& [holder, tally] :
         model.holders().at(account.peak, account.level, account.device)) {
      costs_of(holder).peak_bytes += tally.bytes;
    }
  }
  for (const auto& [holder, bytes] : lost_bytes_by_holder(context, process)) {
    costs_of(holder).leaked_bytes += bytes;
  }
  const std::vector<Group>& groups = model.accounts().groups();
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    const Level level = level_of(groups[i].key.kind);
    if (!is_own_memory(level)) continue;
    if (groups[i].allocated_bytes == 0) continue;
    costs_of({i, groups[i].segments != 0}).allocated_bytes += groups[i].allocated_bytes;
  }
  for (const TransferRow& transfer : model.transfers().rows()) {
    if (transfer.key.is_set) continue;
    const Identity identity = context.identity_of_site(process, transfer.key.site);
    rows[{true, Level::kDriver, identity.stack, identity}].copied_bytes += transfer.bytes;
  }
  return rows;
}

// The largest rows by any measure.
std::set<const CostRow*> largest_rows(const CostRows& rows) {
  std::set<const CostRow*> largest;
  for (const auto measure : kMeasures) {
    std::vector<const CostRow*> sorted = largest_first(rows, measure);
    sorted.resize(std::min(sorted.size(), kMostRowsByMeasure));
    for (const CostRow* row : sorted) {
      if (row->second.*measure != 0) largest.insert(row);
    }
  }
  return largest;
}

rows::Cost cost_row(const ReportProcess& process, const CostKey& key, rows::Cost row) {
  row.process = process.id;
  if (!key.is_copy) row.level = key.level;
  row.origin = origin_with_stack(key.identity, key.stack);
  row.layers = rows::text_or_none(key.identity.layers);
  return row;
}

}  // namespace

std::vector<rows::Cost> report_costs(const ReportContext& context) {
  std::vector<rows::Cost> list;
  for (const ReportProcess& process : context.processes()) {
    const CostRows sums = rows_of(context, process);
    const std::set<const CostRow*> largest = largest_rows(sums);
    CostRows rest;
    for (const CostRow& row : sums) {
      const auto& [key, costs] = row;
      if (largest.count(&row) != 0) {
        list.push_back(cost_row(process, key, costs));
        continue;
      }
      CostKey other{key.is_copy, key.level, {}, {}};
      other.identity.owner = "other";
      rows::Cost& sum = rest[other];
      for (const auto measure : kMeasures) sum.*measure += costs.*measure;
    }
    for (const auto& [key, costs] : rest) list.push_back(cost_row(process, key, costs));
  }
  sort_rows(list, &rows::Cost::allocated_bytes);
  return list;
}

}  // namespace gpumemtrace::analyzer
