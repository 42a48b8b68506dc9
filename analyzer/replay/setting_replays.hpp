// SPDX-License-Identifier: Apache-2.0
// One setting over all that is not known: the requested sizes, and the driver's places for
// segments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/replay/events.hpp"
#include "analyzer/replay/policy_replay.hpp"

namespace gpumemtrace::analyzer::replay {

// The number of possibilities that are tried: sizes between the ends, of either kind, and orders of
// segments beside the one in which each lies in the first gap.
struct Samples {
  std::uint32_t sizes = 0;
  std::uint32_t places = 0;
};

// One replay as long as all is known.
// - From the first size on that is not known, one for each choice of sizes.
// - From the first request on whose block depends on where segments lie, one more for each order
//   of them; the choices of sizes share these.
class SettingReplays final : public EventSink {
 public:
  struct Limits {
    std::uint64_t device_bytes = 0;  // settings may name a fraction of it
    // PyTorch's own limit if the settings name none; 0 = as in the trace.
    std::uint64_t own_bytes = 0;
    double allowed_scale = 1;                     // of the limit that the trace shows
    std::optional<std::uint64_t> capacity_bytes;  // instead of what the driver had by the trace
    bool measures_refusals = false;               // largest_met_instead()
  };
  SettingReplays(const AllocatorSettings& settings, const TorchRules& rules, const Limits& limits,
                 Samples samples);
  void apply(const std::vector<Event>& events) override;

  // Stands for the setting if the replays agree.
  [[nodiscard]] ReplayCounts first() const { return replays_.front()->counts(); }
  [[nodiscard]] std::uint64_t low_peak() const;
  [[nodiscard]] std::uint64_t high_peak() const {
    return most(&AllocatorCounts::reserved_peak_bytes);
  }
  [[nodiscard]] std::uint64_t most_retries() const { return most(&AllocatorCounts::retries); }
  // As AllocatorCounts::asked_peak_bytes.
  [[nodiscard]] std::uint64_t most_asked() const {
    return most(&AllocatorCounts::asked_peak_bytes);
  }
  // Some requests were refused, counting those that the recorded run was refused.
  [[nodiscard]] bool any_refused() const;
  [[nodiscard]] bool all_refused() const;
  // Some requests have unknown sizes.
  [[nodiscard]] bool samples_sizes() const { return samples_sizes_; }
  // Some block depended on where segments lie.
  [[nodiscard]] bool samples_places() const {
    return replays_.front()->counts().allocator.has_ties;
  }
  // Some request was refused that the recorded run had got.
  [[nodiscard]] bool any_ended() const;
  // True if the request that the recorded run was refused as number `index` is met; empty if the
  // replays differ, or one had ended before.
  [[nodiscard]] std::optional<bool> meets_refused(std::size_t index) const;
  // The largest request that would have been met instead in every replay; 0 = none is known.
  [[nodiscard]] std::uint64_t largest_met_instead(std::size_t index) const;

 private:
  [[nodiscard]] std::uint64_t most(std::uint64_t AllocatorCounts::*count) const;
  void part_by_sizes();
  // The replay of this number stands before a request that depends on places. The replays that it
  // is split into come last.
  void part_by_places(std::size_t index);
  void apply_to_all(std::span<const Event> events);
  [[nodiscard]] std::vector<SizeChoice> size_choices() const;

  Samples samples_;
  bool samples_sizes_ = false;
  std::uint32_t sampled_places_ = 0;
  // The one of the largest sizes, in the first gaps, comes first.
  std::vector<std::unique_ptr<PolicyReplay>> replays_;
};

}  // namespace gpumemtrace::analyzer::replay
