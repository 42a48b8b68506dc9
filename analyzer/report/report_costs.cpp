// SPDX-License-Identifier: Apache-2.0
// The costs of each line of code in memory, and the single allocations in the processes' logs.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Rows that are shown for each measure: the largest. All others are summed in one row.
constexpr std::size_t kMostRowsByMeasure = 300;

constexpr auto kMeasures = std::to_array<std::uint64_t rows::Cost::*>(
    {&rows::Cost::peak_bytes, &rows::Cost::leaked_bytes, &rows::Cost::allocated_bytes,
     &rows::Cost::copied_bytes});

struct CostKey {
  bool is_copy = false;
  Level level = Level::kDriver;  // the level of the memory; unused for copies
  std::string stack;
  Identity identity;
  friend auto operator<=>(const CostKey&, const CostKey&) = default;
};
// Sums by line of code. Only the fields of kMeasures are filled; cost_row() fills the others.
using CostRows = std::map<CostKey, rows::Cost>;
using CostRow = CostRows::value_type;

// Sums the peak, leaked, allocated and copied bytes of a process by site and stack.
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

// The rows that are among the largest by any measure.
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
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Cost>& list) {
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
  };
  return context.gather<rows::Cost>(add_rows);
}

namespace {

// The texts that all allocations of a group share.
struct GroupWords {
  rows::OptionalText device;
  rows::OptionalText layers;
  rows::OptionalText owner;
  rows::OptionalText stack;
};

class ProcessAllocations {
 public:
  ProcessAllocations(const ReportContext& context, const ReportProcess& process)
      : context_(context), process_(process), accounts_(process.model().accounts()) {
    words_.resize(2 * accounts_.groups().size());
  }

  [[nodiscard]] rows::AllocationHistory history() {
    rows::AllocationHistory history;
    history.process = process_.id;
    history.complete_from_ns = process_.time_ns(accounts_.log().dropped_until());
    std::vector<const LoggedAllocation*> logged;
    accounts_.log().for_each([&](const LoggedAllocation& row) { logged.push_back(&row); });
    std::ranges::sort(logged, {}, [](const auto* row) { return row->entry.born; });
    for (const LoggedAllocation* row : logged) history.allocations.push_back(row_of(*row));
    return history;
  }

 private:
  [[nodiscard]] rows::Allocation row_of(const LoggedAllocation& logged) {
    const LiveAllocation& entry = logged.entry;
    const GroupWords& words = words_of(entry);
    rows::Allocation row;
    row.device = words.device;
    row.kind = accounts_.group(entry.group).key.kind;
    row.level = level_of(row.kind);
    row.address = entry.address;
    row.bytes = entry.bytes;
    if (logged.request.bytes != 0) row.requested_bytes = logged.request.bytes;
    row.stream = logged.request.stream;
    if (row.level == Level::kDriver && entry.link != 0) row.pool = private_pool_of(entry);
    row.start_ns = process_.known_time_ns(entry.born);
    row.end_ns = process_.time_ns(logged.end);
    row.category = static_cast<Category>(logged.use.category);
    row.layers = words.layers;
    row.owner = words.owner;
    row.stack = words.stack;
    row.free_stack = stack_of_free(logged.free_stack);
    return row;
  }

  [[nodiscard]] rows::OptionalText stack_of_free(trace::StackId stack) {
    if (stack == trace::StackId::kNone) return std::nullopt;
    const auto [found, is_new] = free_stacks_.try_emplace(stack);
    if (is_new) {
      const Identity identity = context_.identity_of_site(process_, {.stack = stack});
      found->second = rows::text_or_none(identity.stack);
    }
    return found->second;
  }

  [[nodiscard]] rows::OptionalNumber private_pool_of(const LiveAllocation& driver_memory) const {
    const Framework& framework = process_.model().memory().framework;
    const Segment& segment = framework.segment(driver_memory.link);
    // After a segment is freed, a new segment may get its number.
    const bool is_the_same = segment.mapped || segment.born == driver_memory.born;
    if (!is_the_same || segment.pool == 0) return std::nullopt;
    return framework.pools().root_of(segment.pool);
  }

  [[nodiscard]] const GroupWords& words_of(const LiveAllocation& entry) {
    const GroupKey& key = accounts_.group(entry.group).key;
    const bool is_segment = level_of(key.kind) == Level::kDriver && entry.link != 0;
    std::optional<GroupWords>& words =
        words_[2 * entry.group + static_cast<std::uint32_t>(is_segment)];
    if (!words) {
      const Identity identity = context_.identity_of(process_, {entry.group, is_segment});
      words = {context_.device_id(process_, key.device), rows::text_or_none(identity.layers),
               rows::text_or_none(identity.owner), rows::text_or_none(identity.stack)};
    }
    return *words;
  }

  const ReportContext& context_;
  const ReportProcess& process_;
  const Accounts& accounts_;
  // two entries for each group of allocations: first other memory, then segments
  std::vector<std::optional<GroupWords>> words_;
  std::map<trace::StackId, rows::OptionalText> free_stacks_;
};

}  // namespace

std::vector<rows::AllocationHistory> report_allocations(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process,
                            std::vector<rows::AllocationHistory>& list) {
    list.push_back(ProcessAllocations(context, process).history());
  };
  return context.gather<rows::AllocationHistory>(add_rows);
}

}  // namespace gpumemtrace::analyzer
