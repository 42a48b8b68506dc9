// SPDX-License-Identifier: Apache-2.0
// A few settings on a recorded run, for findings: answers only if the run proves the rules.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/replay/setting_replays.hpp"
#include "analyzer/replay/trace_events.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer::replay {

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
