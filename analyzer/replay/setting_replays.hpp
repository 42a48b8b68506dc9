// SPDX-License-Identifier: Apache-2.0
// Replays one setting with many choices for all that is not known: the requested sizes, and the
// driver's places for segments.
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

// The numbers of random choices to try: of requested sizes (for each way to choose them) beside the
// least and the most, and of segment addresses beside the first gaps.
struct Samples {
  std::uint32_t sizes = 0;
  std::uint32_t places = 0;
};

// The replays of one setting: a single one as long as all is known.
// - From the first size on that is not known, there is one for each choice of sizes.
// - From the first request on whose block depends on where segments lie, there is one more for each
//   order of segments; the choices of sizes share these.
class SettingReplays final : public EventSink {
 public:
  struct Limits {
    std::uint64_t device_bytes = 0;  // size of the device: settings may name a fraction of it
    // PyTorch's own limit if the settings name none; 0 = as in the trace.
    std::uint64_t own_bytes = 0;
    double allowed_scale = 1;                     // factor for the limit that the trace shows
    std::optional<std::uint64_t> capacity_bytes;  // replaces the driver's bytes of the trace
    bool measures_refusals = false;               // true: largest_met_instead() is asked for
  };
  SettingReplays(const AllocatorSettings& settings, const TorchRules& rules, const Limits& limits,
                 Samples samples);
  void apply(const std::vector<Event>& events) override;

  // The counts of the first replay, which stand for the setting if all replays agree.
  [[nodiscard]] ReplayCounts first() const { return replays_.front()->counts(); }
  [[nodiscard]] std::uint64_t low_peak() const;
  [[nodiscard]] std::uint64_t high_peak() const {
    return most(&AllocatorCounts::reserved_peak_bytes);
  }
  [[nodiscard]] std::uint64_t most_retries() const { return most(&AllocatorCounts::retries); }
  // The largest AllocatorCounts::asked_peak_bytes of all replays.
  [[nodiscard]] std::uint64_t most_asked() const {
    return most(&AllocatorCounts::asked_peak_bytes);
  }
  // True if a replay refused some request, even one that the recorded run was refused, too.
  [[nodiscard]] bool any_refused() const;
  [[nodiscard]] bool all_refused() const;
  // True if some requests have unknown sizes.
  [[nodiscard]] bool samples_sizes() const { return samples_sizes_; }
  // True if some block depended on where segments lie.
  [[nodiscard]] bool samples_places() const {
    return replays_.front()->counts().allocator.has_ties;
  }
  // True if some replay refused a request that the recorded run had got.
  [[nodiscard]] bool any_ended() const;
  // True if the recorded run's refused request number `index` is met; no value if the replays
  // differ, or if one ended before that request.
  [[nodiscard]] std::optional<bool> meets_refused(std::size_t index) const;
  // The largest request that would have been met in every replay instead of the refused one; 0 =
  // none is known.
  [[nodiscard]] std::uint64_t largest_met_instead(std::size_t index) const;

 private:
  [[nodiscard]] std::uint64_t most(std::uint64_t AllocatorCounts::*count) const;
  void split_by_sizes();
  // Splits the replay of this number by orders of segments, just before a request whose block
  // depends on where segments lie. The replays that it is split into come last.
  void split_by_addresses(std::size_t index);
  void apply_to_all(std::span<const Event> events);
  [[nodiscard]] std::vector<SizeChoice> size_choices() const;

  Samples samples_;
  bool samples_sizes_ = false;
  std::uint32_t sampled_places_ = 0;
  // The first replay is that of the largest sizes, with segments in the first gaps.
  std::vector<std::unique_ptr<PolicyReplay>> replays_;
};

// A question about a few settings on a recorded run, for findings. It is answered only if the run
// proves the allocator's rules.
struct SettingsQuestion {
  // Settings that this PyTorch does not have, and the recorded ones, are left out.
  std::vector<std::string> settings;
  std::set<std::int32_t> devices;
  Samples samples;
  bool measures_refusals = false;  // true: measure by how much refused requests were too large
};

// The outcome of one setting over all its replays: there are several if requested sizes are not
// known, or if a block depends on where segments lie.
struct SettingOutcome {
  std::string options;  // the setting as text, with the recorded limit
  // The peak of reserved bytes, in the replays with the least and the most.
  std::uint64_t low_bytes = 0;
  std::uint64_t high_bytes = 0;
  std::uint64_t most_retries = 0;
  bool is_sampled = false;                 // true if sizes are not known
  bool loses_requests = false;             // true if requests fail that the recorded run got
  std::vector<std::optional<bool>> meets;  // by refused request; no value if the replays differ
};

struct DeviceOutcome {
  std::int32_t device = -1;
  bool is_expandable = false;  // true if the recorded settings had expandable segments
  std::uint64_t reserved_peak_bytes = 0;
  std::uint64_t retries = 0;
  // A request that the recorded run refused, and, if its replay refuses it, the largest request
  // that would have been met instead; 0 = none, or not measured.
  struct Refused {
    Refusal request;
    bool is_replayed = false;
    std::uint64_t largest_met_bytes = 0;
  };
  std::vector<Refused> refused;
  std::vector<SettingOutcome> others;
};

// Reads the trace once, and again if PyTorch kept to a limit that no setting names, or if the first
// sample of other memory on the device came late. The outcome of a device whose replay was not
// confirmed has only `device` and `is_expandable`.
[[nodiscard]] std::vector<DeviceOutcome> replay_settings(const trace::TraceFile& file,
                                                         const SettingsQuestion& question);

}  // namespace gpumemtrace::analyzer::replay
