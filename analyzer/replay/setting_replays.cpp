// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/setting_replays.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

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

// All choices of sizes; that of the largest sizes comes first.
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

// Copies each replay for every choice of sizes. Replays that already try random addresses are
// shared among the choices instead.
void SettingReplays::split_by_sizes() {
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

// Adds the replay's share of the random addresses: copies with segments at other addresses.
void SettingReplays::split_by_addresses(std::size_t index) {
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
    if (!rest.empty()) split_by_sizes();
  }
  apply_to_all(rest);
}

// Splits each replay that stops because a block depends on addresses; all its parts then take the
// remaining events.
void SettingReplays::apply_to_all(std::span<const Event> events) {
  const std::size_t before = replays_.size();
  for (std::size_t i = 0; i < before; ++i) {
    const std::size_t taken = replays_[i]->apply(events);
    if (taken == events.size()) continue;
    const std::size_t others = replays_.size();
    split_by_addresses(i);
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

namespace {

// The replays of one device that answer a question: of each setting, and of the recorded settings
// if refused requests are measured.
class DeviceReplays {
 public:
  DeviceReplays(const DeviceEvents& events, const SettingsQuestion& question,
                std::uint64_t limit_bytes)
      : question_(question), rules_(events.rules) {
    limits_.device_bytes = events.facts.total_bytes;
    limits_.own_bytes = limit_bytes;
    if (events.backend != Backend::kNative) return;
    if (question.measures_refusals) {
      SettingReplays::Limits measured = limits_;
      measured.measures_refusals = true;
      recorded_ =
          std::make_unique<SettingReplays>(events.settings, rules_, measured, Samples{0, 2});
      sinks_.push_back(recorded_.get());
    }
    for (const std::string& text : question.settings) add_setting(text, events);
  }

  [[nodiscard]] std::vector<EventSink*> sinks() const { return sinks_; }

  [[nodiscard]] DeviceOutcome outcome(const DeviceEvents& events) const {
    DeviceOutcome out;
    out.device = events.device;
    out.is_expandable = events.settings.expandable;
    const AllocatorCounts& counts = events.recorded->allocator().counts();
    out.reserved_peak_bytes = counts.reserved_peak_bytes;
    out.retries = counts.retries;
    for (std::size_t i = 0; i < events.refusals.size(); ++i) {
      DeviceOutcome::Refused refused{events.refusals[i], false, 0};
      // Without a sample of the driver, the other memory on the device is not known.
      if (events.facts.knows_other && recorded_ && recorded_->meets_refused(i) == false) {
        refused.is_replayed = true;
        refused.largest_met_bytes = recorded_->largest_met_instead(i);
      }
      out.refused.push_back(refused);
    }
    for (const auto& [options, replays] : others_) {
      SettingOutcome setting{options,
                             replays->low_peak(),
                             replays->high_peak(),
                             replays->most_retries(),
                             replays->samples_sizes(),
                             replays->any_ended(),
                             {}};
      const RecordedAllocator& recorded = *events.recorded;
      const bool own_limit_may_refuse = events.settings.memory_fraction == 1 &&
                                        recorded.highest_torch_limit() != 0 &&
                                        replays->most_asked() > recorded.lowest_torch_limit();
      for (std::size_t i = 0; i < events.refusals.size(); ++i) {
        setting.meets.push_back(replays->meets_refused(i));
        // Only a range of PyTorch's own limit is known: the true limit may refuse this request.
        if (own_limit_may_refuse && setting.meets.back() == true) setting.meets.back().reset();
      }
      out.others.push_back(std::move(setting));
    }
    return out;
  }

 private:
  void add_setting(const std::string& text, const DeviceEvents& events) {
    const std::string options = with_recorded_limit(text, events.options);
    AllocatorSettings settings;
    try {
      settings = parse_settings(options, rules_);
    } catch (const SettingError&) {
      return;  // this version of PyTorch does not have the option
    }
    if (settings == events.settings) return;
    others_.emplace_back(
        options, std::make_unique<SettingReplays>(settings, rules_, limits_, question_.samples));
    sinks_.push_back(others_.back().second.get());
  }

  const SettingsQuestion& question_;
  TorchRules rules_;
  SettingReplays::Limits limits_;
  std::unique_ptr<SettingReplays> recorded_;
  std::vector<std::pair<std::string, std::unique_ptr<SettingReplays>>> others_;
  std::vector<EventSink*> sinks_;
};

bool is_proven(const TraceEvents& events, const DeviceEvents& device) {
  // Three things keep a run from being a proof: streams and pools that were inferred from addresses
  // could be other ones, the times at which other streams finished with a block differ from run to
  // run, and other settings would have laid out the memory from before the first event differently.
  if (!device.recorded) return false;
  const Proof& proof = device.recorded->proof();
  return proof.holds() && proof.waits == 0 && proof.knows_classes() && !proof.has_earlier_state &&
         events.gaps().reason.empty() && device.rules.was_proven();
}

}  // namespace

std::vector<DeviceOutcome> replay_settings(const trace::TraceFile& file,
                                           const SettingsQuestion& question) {
  std::map<std::int32_t, DeviceReplays> replays;
  const auto read = [&](const std::map<std::int32_t, std::uint64_t>& limits,
                        const TraceEvents::Unseen& unseen) {
    replays.clear();
    const auto sinks_of = [&](const DeviceEvents& device) {
      if (!question.devices.contains(device.device)) return std::vector<EventSink*>();
      const auto limit = limits.find(device.device);
      return replays
          .try_emplace(device.device, device, question, limit == limits.end() ? 0 : limit->second)
          .first->second.sinks();
    };
    return read_events(file, sinks_of, unseen);
  };
  TraceEvents events = read({}, {});
  std::map<std::int32_t, std::uint64_t> limits;
  for (const auto& [ordinal, device] : events.devices()) {
    if (device.recorded && device.recorded->highest_torch_limit() != 0) {
      limits[ordinal] = device.recorded->highest_torch_limit();
    }
  }
  if (!limits.empty() || !events.unseen_before_sample().empty()) {
    const TraceEvents::Unseen unseen = events.unseen_before_sample();
    events = read(limits, unseen);
  }
  std::vector<DeviceOutcome> outcomes;
  for (const auto& [ordinal, device] : events.devices()) {
    const auto found = replays.find(ordinal);
    if (found == replays.end() || !device.recorded) continue;
    if (is_proven(events, device)) {
      outcomes.push_back(found->second.outcome(device));
    } else {
      outcomes.emplace_back();
      outcomes.back().device = ordinal;
      outcomes.back().is_expandable = device.settings.expandable;
    }
  }
  return outcomes;
}

}  // namespace gpumemtrace::analyzer::replay
