// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/setting_replays.hpp"

#include <algorithm>
#include <span>

namespace gpumemtrace::analyzer::replay {

SizeReplays::SizeReplays(const PolicyReplay& first, std::uint32_t samples) : samples_(samples) {
  replays_.push_back(std::make_unique<PolicyReplay>(first));
}

void SizeReplays::part() {
  using By = SizeChoice::By;
  const auto add = [&](SizeChoice sizes) {
    replays_.push_back(std::make_unique<PolicyReplay>(*replays_.front()));
    replays_.back()->set_sizes(sizes);
  };
  add({By::kLow, 0});
  for (std::uint32_t sample = 0; sample < samples_; ++sample) {
    add({By::kRequest, sample});
    add({By::kSite, sample});
  }
}

void SizeReplays::apply(const std::vector<Event>& events) {
  std::span<const Event> rest(events);
  if (replays_.size() == 1) {
    const auto unknown = std::find_if(events.begin(), events.end(), [](const Event& event) {
      return event.low_bytes != event.high_bytes;
    });
    const auto known = static_cast<std::size_t>(unknown - events.begin());
    replays_.front()->apply(rest.first(known));
    rest = rest.subspan(known);
    if (!rest.empty()) part();
  }
  for (const auto& replay : replays_) replay->apply(rest);
}

SettingReplays::SettingReplays(const AllocatorSettings& settings, const TorchRules& rules,
                               const Limits& limits, std::uint32_t samples)
    : settings_(settings), rules_(rules), limits_(limits), samples_(samples) {
  add(Placing::kFromBelow);
}

void SettingReplays::add(Placing placing) {
  PolicyReplay replay(settings_, rules_, SizeChoice(), placing);
  const std::uint64_t allowed = settings_.allowed_bytes(limits_.device_bytes);
  if (allowed != 0 || limits_.own_bytes != 0) {
    replay.set_allowed_bytes(allowed != 0 ? allowed : limits_.own_bytes);
  }
  if (limits_.measures_refusals) replay.measure_refusals();
  if (limits_.capacity_bytes) replay.set_capacity(*limits_.capacity_bytes);
  sets_.push_back(std::make_unique<SizeReplays>(replay, samples_));
}

void SettingReplays::add_other_places() { add(Placing::kFromAbove); }

std::vector<const PolicyReplay*> SettingReplays::all() const {
  std::vector<const PolicyReplay*> all;
  for (const auto& set : sets_) {
    for (const auto& replay : set->all()) all.push_back(replay.get());
  }
  return all;
}

bool SettingReplays::depends_on_places() const {
  const auto replays = all();
  return std::any_of(replays.begin(), replays.end(), [](const PolicyReplay* replay) {
    return replay->counts().allocator.has_ties;
  });
}

std::uint64_t SettingReplays::low_peak() const {
  std::uint64_t low = ~std::uint64_t{0};
  for (const PolicyReplay* replay : all()) {
    low = std::min(low, replay->counts().allocator.reserved_peak_bytes);
  }
  return low;
}

std::uint64_t SettingReplays::high_peak() const {
  std::uint64_t high = 0;
  for (const PolicyReplay* replay : all()) {
    high = std::max(high, replay->counts().allocator.reserved_peak_bytes);
  }
  return high;
}

std::uint64_t SettingReplays::most_retries() const {
  std::uint64_t most = 0;
  for (const PolicyReplay* replay : all()) {
    most = std::max(most, replay->counts().allocator.retries);
  }
  return most;
}

bool SettingReplays::any_refused() const {
  const auto replays = all();
  return std::any_of(replays.begin(), replays.end(),
                     [](const PolicyReplay* replay) { return replay->counts().refused != 0; });
}

bool SettingReplays::all_refused() const {
  const auto replays = all();
  return std::all_of(replays.begin(), replays.end(),
                     [](const PolicyReplay* replay) { return replay->counts().refused != 0; });
}

bool SettingReplays::any_ended() const {
  const auto replays = all();
  return std::any_of(replays.begin(), replays.end(),
                     [](const PolicyReplay* replay) { return replay->ended(); });
}

std::optional<bool> SettingReplays::meets_refused(std::size_t index) const {
  std::optional<bool> meets;
  for (const PolicyReplay* replay : all()) {
    const auto& refused = replay->refused_before();
    if (index >= refused.size()) return std::nullopt;
    if (meets && *meets != refused[index].is_met) return std::nullopt;
    meets = refused[index].is_met;
  }
  return meets;
}

std::uint64_t SettingReplays::largest_met_instead(std::size_t index) const {
  std::uint64_t least = ~std::uint64_t{0};
  for (const PolicyReplay* replay : all()) {
    const auto& refused = replay->refused_before();
    least = std::min(least, index < refused.size() ? refused[index].largest_met_bytes : 0);
  }
  return least;
}

}  // namespace gpumemtrace::analyzer::replay
