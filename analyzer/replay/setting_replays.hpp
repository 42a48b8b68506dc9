// SPDX-License-Identifier: Apache-2.0
// One setting over all that is not known: the requested sizes, and the driver's places for
// segments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "analyzer/replay/events.hpp"
#include "analyzer/replay/policy_replay.hpp"
#include "analyzer/replay/trace_events.hpp"
#include "trace/reader.hpp"

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

// A few settings on a recorded run, for findings: answers only if the run proves the rules.
struct SettingsQuestion {
  std::vector<std::string> settings;  // unknown ones are left out, and those that were recorded
  std::set<std::int32_t> devices;
  Samples samples;
  bool measures_refusals = false;  // how much less the recorded run would have been given
};

// If sizes are not known or places matter, over all replays.
struct SettingOutcome {
  std::string options;          // the text that sets it, with the recorded limit
  std::uint64_t low_bytes = 0;  // reserved at most
  std::uint64_t high_bytes = 0;
  std::uint64_t most_retries = 0;
  bool is_sampled = false;                 // sizes are not known
  bool loses_requests = false;             // that the recorded run was given
  std::vector<std::optional<bool>> meets;  // by refusal; empty if the replays differ
};

struct DeviceOutcome {
  std::int32_t device = -1;
  bool is_expandable = false;  // as recorded
  std::uint64_t reserved_peak_bytes = 0;
  std::uint64_t retries = 0;
  // Requests that the recorded run and its replay refuse, and the largest that would have been met
  // instead; 0 = none, or not measured.
  struct Refused {
    Refusal request;
    bool is_replayed = false;
    std::uint64_t largest_met_bytes = 0;
  };
  std::vector<Refused> refused;
  std::vector<SettingOutcome> others;
};

// Reads the trace once, and again if PyTorch kept to a limit that no setting names, or if other
// memory on the device was sampled late. For devices without a confirmed replay, only the recorded
// setting has an outcome.
[[nodiscard]] std::vector<DeviceOutcome> replay_settings(const trace::TraceFile& file,
                                                         const SettingsQuestion& question);

}  // namespace gpumemtrace::analyzer::replay
