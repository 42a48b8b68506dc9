// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/setting_replays.hpp"

#include <algorithm>
#include <span>

namespace gpumemtrace::analyzer::replay {
namespace {

bool has_refused(const std::unique_ptr<PolicyReplay>& replay) {
  return replay->counts().refused != 0;
}

}  // namespace

SettingReplays::SettingReplays(const AllocatorSettings& settings, const TorchRules& rules,
                               const Limits& limits, Samples samples)
    : samples_(samples) {
  replays_.push_back(std::make_unique<PolicyReplay>(settings, rules, SizeChoice(), Placing()));
  PolicyReplay& replay = *replays_.front();
  const std::uint64_t allowed = settings.allowed_bytes(limits.device_bytes);
  if (allowed != 0 || limits.own_bytes != 0) {
    replay.set_allowed_bytes(allowed != 0 ? allowed : limits.own_bytes);
  }
  replay.scale_allowed_bytes(limits.allowed_scale);
  if (limits.measures_refusals) replay.measure_refusals();
  if (limits.capacity_bytes) replay.set_capacity(*limits.capacity_bytes);
  replay.stop_at_first_tie();
}

// The one of the largest sizes comes first.
std::vector<SizeChoice> SettingReplays::size_choices() const {
  using By = SizeChoice::By;
  std::vector<SizeChoice> choices{{By::kHigh, 0}};
  if (!samples_sizes_) return choices;
  choices.push_back({By::kLow, 0});
  for (std::uint32_t sample = 0; sample < samples_.sizes; ++sample) {
    choices.push_back({By::kRequest, sample});
    choices.push_back({By::kSite, sample});
  }
  return choices;
}

void SettingReplays::part_by_sizes() {
  samples_sizes_ = true;
  const std::vector<SizeChoice> choices = size_choices();
  const std::size_t before = replays_.size();
  for (std::size_t i = 0; i < before; ++i) {
    if (replays_[i]->placing().sample) {
      replays_[i]->set_sizes(choices[i % choices.size()]);
      continue;
    }
    for (std::size_t choice = 1; choice < choices.size(); ++choice) {
      replays_.push_back(replays_[i]->copy());
      replays_.back()->set_sizes(choices[choice]);
    }
  }
}

void SettingReplays::part_by_places(std::size_t index) {
  const std::size_t choices = size_choices().size();
  const std::size_t share = (samples_.places + choices - 1) / choices;
  for (std::size_t i = 0; i < share; ++i) {
    replays_.push_back(replays_[index]->copy());
    replays_.back()->place_again({sampled_places_++});
  }
}

void SettingReplays::apply(const std::vector<Event>& events) {
  std::span<const Event> rest(events);
  if (!samples_sizes_) {
    const auto unknown = std::ranges::find_if_not(events, &Event::knows_bytes);
    const auto known = static_cast<std::size_t>(unknown - events.begin());
    apply_to_all(rest.first(known));
    rest = rest.subspan(known);
    if (!rest.empty()) part_by_sizes();
  }
  apply_to_all(rest);
}

void SettingReplays::apply_to_all(std::span<const Event> events) {
  const std::size_t before = replays_.size();
  for (std::size_t i = 0; i < before; ++i) {
    const std::size_t taken = replays_[i]->apply(events);
    if (taken == events.size()) continue;
    const std::size_t others = replays_.size();
    part_by_places(i);
    const std::span<const Event> rest = events.subspan(taken);
    (void)replays_[i]->apply(rest);
    for (std::size_t other = others; other < replays_.size(); ++other) {
      (void)replays_[other]->apply(rest);
    }
  }
}

std::uint64_t SettingReplays::low_peak() const {
  std::uint64_t low = ~std::uint64_t{0};
  for (const auto& replay : replays_) {
    low = std::min(low, replay->counts().allocator.reserved_peak_bytes);
  }
  return low;
}

std::uint64_t SettingReplays::most(std::uint64_t AllocatorCounts::*count) const {
  std::uint64_t most = 0;
  for (const auto& replay : replays_) most = std::max(most, replay->counts().allocator.*count);
  return most;
}

bool SettingReplays::any_refused() const { return std::ranges::any_of(replays_, has_refused); }

bool SettingReplays::all_refused() const { return std::ranges::all_of(replays_, has_refused); }

bool SettingReplays::any_ended() const {
  return std::ranges::any_of(replays_, [](const auto& replay) { return replay->ended(); });
}

std::optional<bool> SettingReplays::meets_refused(std::size_t index) const {
  std::optional<bool> meets;
  for (const auto& replay : replays_) {
    const auto& refused = replay->refused_before();
    if (index >= refused.size()) return std::nullopt;
    if (meets && *meets != refused[index].is_met) return std::nullopt;
    meets = refused[index].is_met;
  }
  return meets;
}

std::uint64_t SettingReplays::largest_met_instead(std::size_t index) const {
  std::uint64_t least = ~std::uint64_t{0};
  for (const auto& replay : replays_) {
    const auto& refused = replay->refused_before();
    least = std::min(least, index < refused.size() ? refused[index].largest_met_bytes : 0);
  }
  return least;
}

}  // namespace gpumemtrace::analyzer::replay
