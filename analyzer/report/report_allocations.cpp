// SPDX-License-Identifier: Apache-2.0
// Every allocation of the job, for exports.
#include <algorithm>
#include <optional>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The words that all allocations of a group share.
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
    row.start_ns = process_.known_time_ns(entry.born);
    row.end_ns = process_.time_ns(logged.end);
    row.category = static_cast<Category>(logged.use.category);
    row.layers = words.layers;
    row.owner = words.owner;
    row.stack = words.stack;
    return row;
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
  std::vector<std::optional<GroupWords>> words_;  // by group, each as such and as a segment
};

}  // namespace

std::vector<rows::AllocationHistory> report_allocations(const ReportContext& context) {
  std::vector<rows::AllocationHistory> list;
  for (const ReportProcess& process : context.processes()) {
    list.push_back(ProcessAllocations(context, process).history());
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
