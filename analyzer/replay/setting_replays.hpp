// SPDX-License-Identifier: Apache-2.0
// One setting over all that is not known: the sizes that were asked for, and where the driver
// places segments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "analyzer/replay/events.hpp"
#include "analyzer/replay/policy_replay.hpp"

namespace gpumemtrace::analyzer::replay {

// With segments placed in one way.
// - One replay as long as sizes are known; from the first that is not, one for each choice of
// sizes:
//   the most, the least, and `samples` of either kind.
class SizeReplays final : public EventSink {
 public:
  SizeReplays(const PolicyReplay& first, std::uint32_t samples);
  void apply(const std::vector<Event>& events) override;
  // That of the most comes first.
  [[nodiscard]] const std::vector<std::unique_ptr<PolicyReplay>>& all() const { return replays_; }

 private:
  void part();

  std::uint32_t samples_;
  std::vector<std::unique_ptr<PolicyReplay>> replays_;
};

// Segments placed from below; where that matters, from above as well.
class SettingReplays {
 public:
  struct Limits {
    std::uint64_t device_bytes = 0;  // of which settings may name a fraction
    std::uint64_t own_bytes = 0;     // that PyTorch kept to where the settings say nothing; 0 = all
    std::optional<std::uint64_t> capacity_bytes;  // instead of what the driver had by the trace
    bool measures_refusals = false;               // largest_met_instead()
  };
  SettingReplays(const AllocatorSettings& settings, const TorchRules& rules, const Limits& limits,
                 std::uint32_t samples);

  // Those that were added last.
  [[nodiscard]] EventSink* newest() const { return sets_.back().get(); }
  [[nodiscard]] bool depends_on_places() const;
  // A pass from the beginning is to follow, with newest().
  void add_other_places();

  // Stands for the setting where the replays agree.
  [[nodiscard]] ReplayCounts first() const { return sets_.front()->all().front()->counts(); }
  [[nodiscard]] std::uint64_t low_peak() const;
  [[nodiscard]] std::uint64_t high_peak() const;
  [[nodiscard]] std::uint64_t most_retries() const;
  // Requests were refused, those that the recorded run was refused among them.
  [[nodiscard]] bool any_refused() const;
  [[nodiscard]] bool all_refused() const;
  // Sizes were asked for that are not known.
  [[nodiscard]] bool samples_sizes() const { return sets_.front()->all().size() > 1; }
  // A request was refused that the recorded run had got.
  [[nodiscard]] bool any_ended() const;
  // Whether the request that the recorded run was refused as number `index` is met; empty where the
  // replays differ, or one had ended before.
  [[nodiscard]] std::optional<bool> meets_refused(std::size_t index) const;
  // The largest request that would have been met instead in every replay; 0 = none is known.
  [[nodiscard]] std::uint64_t largest_met_instead(std::size_t index) const;

 private:
  void add(Placing placing);
  [[nodiscard]] std::vector<const PolicyReplay*> all() const;

  AllocatorSettings settings_;
  TorchRules rules_;
  Limits limits_;
  std::uint32_t samples_;
  std::vector<std::unique_ptr<SizeReplays>> sets_;  // one a placing
};

}  // namespace gpumemtrace::analyzer::replay
