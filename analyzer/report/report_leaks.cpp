// SPDX-License-Identifier: Apache-2.0
// Memory that was live when the process ended.
#include <algorithm>
#include <tuple>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/owners/owners.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

using rows::LeakClass;

struct SiteAllocations {
  std::uint64_t allocations = 0;
  std::uint64_t last_time = 0;
  Releases freed;
};

struct LeakRow {
  Tally tally;
  CallSite ended_at;  // site of the teardown that ended the largest part of the row's memory
  // All allocations of the same site and kind, freed ones included. They are not counted for blocks
  // of the framework, whose sites are many and slow to name.
  SiteAllocations site_allocations;
};

struct LeakKey {
  std::int32_t device = kHostDevice;
  Kind kind = Kind::kDevice;
  LeakClass leak = LeakClass::kLost;
  EndedBy ended_by = EndedBy::kNothing;
  Identity identity;
  friend auto operator<=>(const LeakKey&, const LeakKey&) = default;
};

class LeakList {
 public:
  LeakList(const ReportContext& context, const ReportProcess& process)
      : context_(context), process_(process) {
    const std::string allocator =
        process.model().program().dictionary().text(trace::TextKey::kTorchAllocator);
    pool_is_framework_ = allocator == "cudaMallocAsync";
  }

  // add_live() adds memory that was live at the end, add_ended() memory that ended with its
  // context. Memory allocated before the program's mark, from which on leaks count, is `is_early`:
  // it is meant to live as long as the process.
  void add_live(const HolderKey& holder, bool is_early, const Tally& tally) {
    add(holder, Teardown{}, is_early ? LeakClass::kProcessLifetime : class_of_live(holder), tally);
  }
  void add_ended(const HolderKey& holder, const Teardown& teardown, bool is_early,
                 const Tally& tally) {
    if (is_early) return add(holder, teardown, LeakClass::kProcessLifetime, tally);
    const LeakClass leak = class_of_live(holder);
    const bool counts_as_destroyed = !teardown.at_exit && leak != LeakClass::kFrameworkCache;
    add(holder, teardown, counts_as_destroyed ? LeakClass::kContextDestroyed : leak, tally);
  }
  // Counts all allocations of each row's site. Call it once all rows are added.
  void count_allocations() {
    const Accounts& accounts = process_.model().accounts();
    std::map<SiteAllocationsKey, SiteAllocations> site_allocations;
    for (const auto& [key, row] : rows_) site_allocations[site_allocations_key_of(key)] = {};
    for (std::uint32_t i = 0; i < accounts.groups().size(); ++i) {
      const Group& group = accounts.group(i);
      if (level_of(group.key.kind) == Level::kFramework) continue;
      const Identity identity = context_.identity_of(process_, {i, group.segments != 0});
      const auto found = site_allocations.find({group.key.device, group.key.kind, identity});
      if (found == site_allocations.end()) continue;
      found->second.allocations += group.allocations;
      found->second.last_time = std::max(found->second.last_time, group.last_time);
      found->second.freed.merge(group.freed);
    }
    for (auto& [key, row] : rows_)
      row.site_allocations = site_allocations.at(site_allocations_key_of(key));
  }
  [[nodiscard]] const std::map<LeakKey, LeakRow>& rows() const { return rows_; }
  [[nodiscard]] const std::map<HolderKey, std::uint64_t>& lost_by_holder() const {
    return lost_by_holder_;
  }

 private:
  using SiteAllocationsKey = std::tuple<std::int32_t, Kind, Identity>;
  static SiteAllocationsKey site_allocations_key_of(const LeakKey& key) {
    return {key.device, key.kind, key.identity};
  }

  // The leak class of memory that the program did not free. After an exit, memory of the user's own
  // code is lost; libraries and the framework's cache keep theirs on purpose.
  [[nodiscard]] LeakClass class_of_live(const HolderKey& holder) const {
    if (process_.end != rows::TraceEnd::kExit) return LeakClass::kLiveAtKill;
    const Kind kind = process_.model().accounts().group(holder.group).key.kind;
    const std::string owner = context_.identity_of(process_, holder).owner;
    const Level level = level_of(kind);
    if (level == Level::kDriver && owner == framework_with_blocks().owner) {
      return LeakClass::kFrameworkCache;
    }
    if (level == Level::kPool && owner.empty() && pool_is_framework_) {
      return LeakClass::kProcessLifetime;
    }
    return is_users_own(owner) ? LeakClass::kLost : LeakClass::kProcessLifetime;
  }

  void add(const HolderKey& holder, const Teardown& teardown, LeakClass leak, const Tally& tally) {
    const GroupKey& key = process_.model().accounts().group(holder.group).key;
    const Identity identity = context_.identity_of(process_, holder);
    LeakRow& row = rows_[{key.device, key.kind, leak, teardown.reason, identity}];
    if (row.tally.count == 0) row.ended_at = teardown.site;
    row.tally.merge(tally);
    if (leak == LeakClass::kLost) lost_by_holder_[holder] += tally.bytes;
  }

  const ReportContext& context_;
  const ReportProcess& process_;
  bool pool_is_framework_ = false;
  std::map<LeakKey, LeakRow> rows_;
  std::map<HolderKey, std::uint64_t> lost_by_holder_;
};

// Allocations that look alike, summed before they get their names: naming is slow.
struct Alike {
  HolderKey holder;
  Teardown teardown;
  bool is_early = false;  // allocated before the program's mark, Steps::leaks_from()
  friend auto operator<=>(const Alike&, const Alike&) = default;
};

// Adds up the memory that was live at the end or ended with its context, by leak class and site.
LeakList collect(const ReportContext& context, const ReportProcess& process) {
  const ProcessModel& model = process.model();
  std::map<Alike, Tally> alike;
  const std::uint64_t leaks_from = model.program().steps().leaks_from();
  const auto add = [&](const LiveAllocation& entry, const Teardown& teardown) {
    alike[{{entry.group, entry.link != 0}, teardown, entry.born <= leaks_from}].add(entry.bytes,
                                                                                    entry.born);
  };
  for (const Account& account : model.accounts().accounts()) {
    if (!is_own_memory(account.level)) continue;
    for (const LiveAllocation& entry : model.memory().live_now(account.level, account.device)) {
      add(entry, Teardown{});
    }
  }
  model.memory().live.for_each_ended(
      [&](const EndedAllocation& ended) { add(ended.entry, ended.teardown); });
  // Sums of memory torn down at reused addresses have no allocation times: if the program set a
  // mark, they count as allocated before it.
  for (const auto& [key, tally] : model.memory().torn_down_at_reused_addresses) {
    alike[{{key.first, false}, {key.second, false, {}}, leaks_from != 0}].merge(tally);
  }
  LeakList leaks(context, process);
  for (const auto* entry : largest_first(alike, &Tally::bytes)) {
    const auto& [what, tally] = *entry;
    if (what.teardown.reason == EndedBy::kNothing) {
      leaks.add_live(what.holder, what.is_early, tally);
    } else {
      leaks.add_ended(what.holder, what.teardown, what.is_early, tally);
    }
  }
  return leaks;
}

// The number of the step at this time. No value if there is no step, or if the steps are guessed
// from the trace: their numbers mean nothing to the reader.
rows::OptionalNumber stated_step_at(const ReportProcess& process, std::uint64_t model_time) {
  const Steps& steps = process.model().program().steps();
  return steps.source() == StepSource::kPeriod ? std::nullopt : steps.step_at(model_time);
}

rows::ExitLeak exit_row(const ReportContext& context, const ReportProcess& process,
                        const LeakKey& key, const LeakRow& leak) {
  const Tally& tally = leak.tally;
  auto row = context.row_on<rows::ExitLeak>(process, key.device);
  row.level = level_of(key.kind);
  row.kind = key.kind;
  row.leak_class = key.leak;
  row.bytes = tally.bytes;
  row.count = tally.count;
  row.origin = origin_of(key.identity);
  row.layers = rows::text_or_none(key.identity.layers);
  row.first_time_ns = process.time_ns(tally.first_time);
  row.last_time_ns = process.time_ns(tally.last_time);
  if (row.level == Level::kFramework) row.inside = Level::kDriver;
  row.ended_by = key.ended_by;
  row.ended_at = location_of(context, process, leak.ended_at);
  row.allocations = rows::number_or_none(leak.site_allocations.allocations);
  row.last_allocation_ns = process.time_ns(leak.site_allocations.last_time);
  row.first_step = stated_step_at(process, tally.first_time);
  if (row.allocations) row.freed = releases_row(context, process, &leak.site_allocations.freed);
  row.is_exact = !is_inexact(process, row.level);
  return row;
}

std::vector<rows::InvalidFree> invalid_free_rows(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::InvalidFree>& list) {
    for (const trace::RefusedFree& refused : process.model().memory().refused_frees.rows()) {
      const auto location = [&](const std::optional<CallSite>& of) {
        return of ? location_of(context, process, *of) : rows::OptionalLocation();
      };
      const CallSite site = ledger::site_of(refused);
      rows::InvalidFree row;
      row.process = process.id;
      row.function = process.model().program().dictionary().function_of(site);
      row.result = refused.record.result;
      row.address_was_live = refused.what == FreedWhat::kLiveMemory;
      row.count = refused.count;
      row.bytes = refused.bytes;
      row.origin = origin_of(context.identity_of_site(process, site));
      row.first_time_ns = process.time_ns(refused.first_time);
      row.last_time_ns = process.time_ns(refused.last_time);
      row.what = refused.what;
      row.allocated_at = location(ledger::allocated_at(refused));
      row.freed_before_at = location(ledger::freed_before_at(refused));
      row.offset_bytes = refused.offset_bytes;
      list.push_back(std::move(row));
    }
  };
  return context.gather<rows::InvalidFree>(add_rows);
}

}  // namespace

std::map<HolderKey, std::uint64_t> lost_bytes_by_holder(const ReportContext& context,
                                                        const ReportProcess& process) {
  return collect(context, process).lost_by_holder();
}

rows::Leaks report_leaks(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::ExitLeak>& list) {
    LeakList leaks = collect(context, process);
    leaks.count_allocations();
    for (const auto& [key, leak] : leaks.rows()) {
      list.push_back(exit_row(context, process, key, leak));
    }
  };
  rows::Leaks report;
  report.exit = context.gather<rows::ExitLeak>(add_rows);
  report.handles = report_open_handles(context);
  report.invalid_frees = invalid_free_rows(context);
  return report;
}

}  // namespace gpumemtrace::analyzer
