// SPDX-License-Identifier: Apache-2.0
// Memory that goes back and forth between the program and the driver.
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct PlaceKey {
  std::int32_t device = kHostDevice;
  Kind kind = Kind::kDevice;
  Identity identity;
  friend auto operator<=>(const PlaceKey&, const PlaceKey&) = default;
};

struct Place {
  std::uint64_t allocations = 0;  // after the warm-up
  std::uint64_t stretches = 0;    // after the warm-up, in which it allocates
  std::uint64_t all_allocations = 0;
  std::uint64_t live_count = 0;
  std::uint64_t host_ticks = 0;
  std::string stack;  // of the group that allocated most
  std::uint64_t most_allocations = 0;
  CallSite freed_at;  // those of that group
};

// Calls whose every use goes to the driver. Stream-ordered memory and the framework's blocks come
// from pools and cost little.
bool goes_to_the_driver(Kind kind) {
  switch (level_of(kind)) {
    case Level::kDriver:
    case Level::kManaged:
    case Level::kHost:
      return kind != Kind::kGraph;
    default:
      return false;
  }
}

std::map<PlaceKey, Place> places_of(const RuleInput& input, const ReportProcess& process,
                                    std::size_t begin) {
  const ProcessModel& model = process.model();
  std::map<std::uint32_t, std::uint64_t> live_count;
  for (const Account& account : model.accounts().accounts()) {
    for (const auto& [holder, tally] :
         sum_by_holder(model.live_now(account.level, account.device))) {
      live_count[holder.group] += tally.count;
    }
  }
  std::map<PlaceKey, Place> places;
  for (std::uint32_t i = 0; i < model.accounts().groups().size(); ++i) {
    const Group& group = model.accounts().group(i);
    if (!goes_to_the_driver(group.key.kind)) continue;
    PlaceKey key{group.key.device, group.key.kind,
                 input.context.identity_of(process, {i, group.segments != 0})};
    const std::string stack = std::move(key.identity.stack);
    key.identity.stack.clear();
    Place& place = places[key];
    const std::vector<History::Stretch> stretches = model.accounts().history().stretches_of(i);
    for (std::size_t at = begin; at < stretches.size(); ++at) {
      place.allocations += stretches[at].allocations;
      place.stretches += stretches[at].allocations != 0 ? 1 : 0;
    }
    place.all_allocations += group.allocations;
    place.live_count += live_count[i];
    place.host_ticks += group.host_ticks;
    if (group.allocations > place.most_allocations) {
      place.most_allocations = group.allocations;
      place.stack = stack;
      place.freed_at = group.freed.first_at;
    }
  }
  return places;
}

std::string fix_for(const Finding& finding, bool pinned, const std::string& time) {
  const std::string freed = second_place_text(finding.evidence, "freed_at");
  const bool elsewhere = !freed.empty() && freed != place_text(finding.site);
  const std::string after =
      " and free it after the loop" + (elsewhere ? ", not at " + freed : std::string());
  const std::string saved = " The calls took " + time + " (exact), most of which would be saved.";
  if (finding.owner == "pytorch") {
    return "Do not call torch.cuda.empty_cache() in the loop, and see whether the job is so near "
           "the device's limit that the allocator has to give back its cache." +
           saved;
  }
  if (finding.owner == "jax") {
    return "Let XLA deal its buffers out of its own pool: leave XLA_PYTHON_CLIENT_ALLOCATOR unset "
           "(platform asks the driver for each buffer)." +
           saved;
  }
  if (pinned) return "Pin one buffer before the loop" + after + '.' + saved;
  return "Allocate once before the loop" + after +
         "; or use cudaMallocAsync (cuMemAllocAsync), which takes from a pool and does not wait "
         "for "
         "the GPU." +
         saved;
}

Finding finding_of(const RuleInput& input, const ReportProcess& process, const PlaceKey& key,
                   const Place& place) {
  const bool pinned = level_of(key.kind) == Level::kHost;
  Finding finding = finding_at(pinned ? Rule::kPinnedChurn : Rule::kAllocationChurn,
                               {{"process", process.id},
                                {"device", input.context.device_id(process, key.device)},
                                {"level", name_of(level_of(key.kind))},
                                {"owner", owner_json(key.identity)},
                                {"site", site_json(key.identity)},
                                {"stack", text_or_null(place.stack)}});
  const std::uint64_t time_ns = process.process->clock().duration_ns(place.host_ticks);
  const std::string where = place_text(finding.site);
  finding.evidence = {{"kind", name_of(key.kind)},
                      {"allocations", place.all_allocations},
                      {"allocations_after_warmup", place.allocations},
                      {"live_count_at_end", place.live_count},
                      {"time_in_calls_ns", time_ns},
                      {"freed_at", place_json(input.context, process, place.freed_at)}};
  const std::string freed = second_place_text(finding.evidence, "freed_at");
  finding.title = where + " allocates " + std::string(name_of(key.kind)) +
                  " memory from the driver again and again, " +
                  count_text(place.all_allocations, "time", "times");
  finding.detail =
      where + " allocated " + std::string(name_of(key.kind)) + " memory " +
      count_text(place.all_allocations, "time", "times") + ", " +
      std::to_string(place.allocations) + " of them after the warm-up, and freed it again" +
      (freed.empty() ? "" : " at " + freed) + ". The calls took " + duration_text(time_ns) +
      (pinned ? "; each of them locks pages." : "; a free of such memory also waits for the GPU.");
  finding.fix = fix_for(finding, pinned, duration_text(time_ns));
  return finding;
}

}  // namespace

void find_churn(const RuleInput& input, Findings& findings) {
  for (const ReportProcess& process : input.context.processes()) {
    const History& history = process.model().accounts().history();
    const auto begin = static_cast<std::size_t>(input.thresholds[Threshold::kChurnWarmupShare] *
                                                static_cast<double>(history.flow().size()));
    const std::size_t watched = history.flow().size() - begin;
    for (const auto& [key, place] : places_of(input, process, begin)) {
      const bool often = place.allocations >= input.thresholds.count(Threshold::kChurnCount);
      const bool throughout = place.stretches * 2 >= watched;
      const bool comes_back = place.live_count * 4 <= place.all_allocations;
      if (often && throughout && comes_back) {
        findings.push_back(finding_of(input, process, key, place));
      }
    }
  }
}

}  // namespace gpumemtrace::analyzer
