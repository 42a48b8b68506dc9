// SPDX-License-Identifier: Apache-2.0
// What was live when the process ended.
#include <algorithm>
#include <tuple>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

enum class LeakClass { kLost, kProcessLifetime, kFrameworkCache, kContextDestroyed, kLiveAtKill };

std::string_view name_of(LeakClass leak) {
  switch (leak) {
    case LeakClass::kLost:
      return "lost";
    case LeakClass::kProcessLifetime:
      return "process_lifetime";
    case LeakClass::kFrameworkCache:
      return "framework_cache";
    case LeakClass::kContextDestroyed:
      return "context_destroyed";
    case LeakClass::kLiveAtKill:
      break;
  }
  return "live_at_kill";
}

// Code that the user can change. A library keeps its buffers as long as the process lives.
bool is_users_own(const std::string& owner) {
  return owner.empty() || owner == "program" || owner == "python_extension";
}

struct Made {
  std::uint64_t allocations = 0;
  std::uint64_t last_time = 0;
  Releases freed;
};

struct LeakRow {
  Tally tally;
  CallSite ended_at;  // of the teardown that ended the first of them
  // What the same place made of the kind, freed ones included; not counted of blocks, whose places
  // are many and slow to name.
  Made made;
};

struct LeakKey {
  std::string process;
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
        process.model().dictionary().text(trace::TextKey::kTorchAllocator);
    pool_is_framework_ = allocator == "cudaMallocAsync";
  }

  // Of both what the program had before it said that leaks count from here on lives as long as the
  // process.
  void add_live(const HolderKey& holder, bool is_early, const Tally& tally) {
    add(holder, Teardown{}, is_early ? LeakClass::kProcessLifetime : class_of_live(holder), tally);
  }
  void add_ended(const HolderKey& holder, const Teardown& teardown, bool is_early,
                 const Tally& tally) {
    if (is_early) return add(holder, teardown, LeakClass::kProcessLifetime, tally);
    const LeakClass leak = class_of_live(holder);
    const bool at_will = !teardown.at_exit && leak != LeakClass::kFrameworkCache;
    add(holder, teardown, at_will ? LeakClass::kContextDestroyed : leak, tally);
  }
  // Once all rows are there.
  void count_allocations() {
    const Accounts& accounts = process_.model().accounts();
    std::map<PlaceKey, Made> made;
    for (const auto& [key, row] : rows_) made[place_of(key)] = {};
    for (std::uint32_t i = 0; i < accounts.groups().size(); ++i) {
      const Group& group = accounts.group(i);
      if (level_of(group.key.kind) == Level::kFramework) continue;
      const Identity identity = context_.identity_of(process_, {i, group.segments != 0});
      const auto place = made.find({group.key.device, group.key.kind, identity});
      if (place == made.end()) continue;
      place->second.allocations += group.allocations;
      place->second.last_time = std::max(place->second.last_time, group.last_time);
      place->second.freed.merge(group.freed);
    }
    for (auto& [key, row] : rows_) row.made = made.at(place_of(key));
  }
  [[nodiscard]] const std::map<LeakKey, LeakRow>& rows() const { return rows_; }
  [[nodiscard]] const std::map<HolderKey, std::uint64_t>& lost_by_holder() const {
    return lost_by_holder_;
  }

 private:
  using PlaceKey = std::tuple<std::int32_t, Kind, Identity>;
  static PlaceKey place_of(const LeakKey& key) { return {key.device, key.kind, key.identity}; }

  [[nodiscard]] LeakClass class_of_live(const HolderKey& holder) const {
    if (process_.end != TraceEnd::kExit) return LeakClass::kLiveAtKill;
    const Kind kind = process_.model().accounts().group(holder.group).key.kind;
    const std::string owner = context_.identity_of(process_, holder).owner;
    const Level level = level_of(kind);
    if (level == Level::kDriver && owner == "pytorch") return LeakClass::kFrameworkCache;
    if (level == Level::kPool && owner.empty() && pool_is_framework_) {
      return LeakClass::kProcessLifetime;
    }
    return is_users_own(owner) ? LeakClass::kLost : LeakClass::kProcessLifetime;
  }

  void add(const HolderKey& holder, const Teardown& teardown, LeakClass leak, const Tally& tally) {
    const GroupKey& key = process_.model().accounts().group(holder.group).key;
    const Identity identity = context_.identity_of(process_, holder);
    LeakRow& row = rows_[{process_.id, key.device, key.kind, leak, teardown.reason, identity}];
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
  bool is_early = false;  // from before Steps::leaks_from()
  friend auto operator<=>(const Alike&, const Alike&) = default;
};

LeakList collect(const ReportContext& context, const ReportProcess& process) {
  const ProcessModel& model = process.model();
  std::map<Alike, Tally> alike;
  const std::uint64_t leaks_from = model.steps().leaks_from();
  for (const Account& account : model.accounts().accounts()) {
    if (account.level == Level::kMapping || account.level == Level::kImported) continue;
    for (const LiveAllocation& entry : model.live_now(account.level, account.device)) {
      alike[{{entry.group, entry.link != 0}, Teardown{}, entry.born <= leaks_from}].add(entry.bytes,
                                                                                        entry.born);
    }
  }
  model.memory().for_each_ended([&](const EndedAllocation& ended) {
    const LiveAllocation& entry = ended.entry;
    alike[{{entry.group, entry.link != 0}, ended.teardown, entry.born <= leaks_from}].add(
        entry.bytes, entry.born);
  });
  for (const auto& [key, tally] : model.memory().replaced_ended()) {
    alike[{{key.first, false}, {key.second, false, {}}, leaks_from != 0}].merge(tally);
  }
  // The largest first, so that its stack stands for its row.
  std::vector<std::pair<Alike, Tally>> sorted(alike.begin(), alike.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  LeakList leaks(context, process);
  for (const auto& [what, tally] : sorted) {
    if (what.teardown.reason == EndedBy::kNothing) {
      leaks.add_live(what.holder, what.is_early, tally);
    } else {
      leaks.add_ended(what.holder, what.teardown, what.is_early, tally);
    }
  }
  return leaks;
}

// null also where the trace alone made up the steps: their numbers mean nothing to the reader.
Json told_step_json(const ReportProcess& process, std::uint64_t model_time) {
  const bool is_told = process.model().steps().source() != StepSource::kPeriod;
  return is_told ? step_json(process, model_time) : Json(nullptr);
}

Json exit_row(const ReportContext& context, const ReportProcess& process, const LeakKey& key,
              const LeakRow& leak) {
  const Tally& tally = leak.tally;
  const Level level = level_of(key.kind);
  Json row = {
      {"process", process.id},
      {"device", context.device_id(process, key.device)},
      {"level", name_of(level)},
      {"kind", name_of(key.kind)},
      {"class", name_of(key.leak)},
      {"bytes", tally.bytes},
      {"count", tally.count},
      {"owner", owner_json(key.identity)},
      {"site", site_json(key.identity)},
      {"stack", stack_json(key.identity)},
      {"first_time_ns", process.time_ns(tally.first_time)},
      {"last_time_ns", process.time_ns(tally.last_time)},
      {"inside", level == Level::kFramework ? Json("driver") : Json(nullptr)},
      {"ended_by", key.ended_by == EndedBy::kNothing ? Json(nullptr) : Json(name_of(key.ended_by))},
      {"ended_at", place_json(context, process, leak.ended_at)},
      {"allocations", leak.made.allocations == 0 ? Json(nullptr) : Json(leak.made.allocations)},
      {"last_allocation_ns", process.time_ns(leak.made.last_time)},
      {"first_step", told_step_json(process, tally.first_time)}};
  add_releases(row, "freed", context, process,
               leak.made.allocations == 0 ? nullptr : &leak.made.freed);
  mark_inexact(row, is_inexact(process, level));
  return row;
}

std::string_view name_of(FreedWhat what) {
  switch (what) {
    case FreedWhat::kLiveMemory:
      return "live_memory";
    case FreedWhat::kFreedBefore:
      return "freed_before";
    case FreedWhat::kEndedBefore:
      return "ended_before";
    case FreedWhat::kInsideLive:
      return "inside_live_memory";
    case FreedWhat::kNothingKnown:
      break;
  }
  return "nothing_known";
}

Json invalid_frees_json(const ReportContext& context) {
  Json rows = Json::array();
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [refused, row] : process.model().invalid_frees()) {
      const Tally& tally = row.tally;
      const auto place = [&](const std::optional<CallSite>& site) {
        return site ? place_json(context, process, *site) : Json(nullptr);
      };
      const Identity identity = context.identity_of_site(process, refused.site);
      rows.push_back({{"process", process.id},
                      {"function", process.model().dictionary().function_of(refused.site)},
                      {"result", refused.result},
                      {"address_was_live", refused.what == FreedWhat::kLiveMemory},
                      {"count", tally.count},
                      {"bytes", tally.bytes},
                      {"owner", owner_json(identity)},
                      {"site", site_json(identity)},
                      {"stack", stack_json(identity)},
                      {"first_time_ns", process.time_ns(tally.first_time)},
                      {"last_time_ns", process.time_ns(tally.last_time)},
                      {"what", name_of(refused.what)},
                      {"allocated_at", place(row.allocated_at)},
                      {"freed_before_at", place(row.freed_before_at)},
                      {"offset_bytes", row.offset_bytes}});
    }
  }
  return rows;
}

}  // namespace

std::map<HolderKey, std::uint64_t> lost_bytes_by_holder(const ReportContext& context,
                                                        const ReportProcess& process) {
  return collect(context, process).lost_by_holder();
}

Json report_leaks(const ReportContext& context) {
  std::vector<Json> rows;
  std::uint64_t total_bytes = 0;
  std::uint64_t total_count = 0;
  std::uint64_t gated_bytes = 0;
  bool all_exited = !context.processes().empty();
  for (const ReportProcess& process : context.processes()) {
    all_exited = all_exited && process.end == TraceEnd::kExit;
    LeakList leaks = collect(context, process);
    leaks.count_allocations();
    for (const auto& [key, leak] : leaks.rows()) {
      const Tally& tally = leak.tally;
      rows.push_back(exit_row(context, process, key, leak));
      if (level_of(key.kind) == Level::kFramework) continue;
      total_bytes += tally.bytes;
      total_count += tally.count;
      if (key.leak == LeakClass::kLost) gated_bytes += tally.bytes;
    }
  }
  return {{"state", all_exited ? "checked" : "not_applicable"},
          {"total_bytes", total_bytes},
          {"total_count", total_count},
          {"gated_bytes", gated_bytes},
          {"suppressed_bytes", 0},
          {"exit", sorted_rows(std::move(rows), "bytes")},
          {"growth", Json::array()},
          {"handles", report_open_handles(context)},
          {"invalid_frees", invalid_frees_json(context)}};
}

}  // namespace gpumemtrace::analyzer
