// SPDX-License-Identifier: Apache-2.0
// The memory that a recorded process's caching allocator would have needed under other settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/replay/caching_allocator.hpp"
#include "analyzer/replay/question.hpp"
#include "analyzer/replay/recorded_allocator.hpp"
#include "analyzer/replay/trace_events.hpp"
#include "analyzer/rows/what_if_rows.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer::replay {

using Basis = rows::WhatIfBasis;
using Fit = rows::WhatIfFit;

// A setting's row of the report, and two more values for the comparison of settings.
struct Row : rows::WhatIfRow {
  AllocatorSettings settings;
  std::optional<std::uint64_t> asked_peak_bytes;  // see AllocatorCounts::asked_peak_bytes
};

struct DeviceAnswer {
  std::int32_t device = -1;
  bool is_native = false;         // true if PyTorch's native allocator was recorded
  bool is_without_torch = false;  // true if requests are the program's own calls of the driver
  Proof proof;
  bool sizes_known = false;
  std::uint64_t changes = 0;              // changes of settings after the first block
  std::optional<double> memory_fraction;  // the last fraction that the program set
  std::uint32_t classes = 0;
  std::vector<Row> rows;  // rows of settings, the recorded ones first
  DeviceFacts facts;
  std::uint64_t live_peak_bytes = 0;
  std::optional<std::uint64_t> packed_bytes;
  std::uint64_t packed_events = 0;
  std::optional<Unusable> unusable;  // no value unless the run proves the allocator's rules
};

struct Answer {
  std::vector<DeviceAnswer> devices;
};

// Replays the trace under all settings of the question. It reads the trace a few times; the same
// trace and question give the same answer. Throws SettingError for settings that PyTorch of the
// trace's version does not take.
[[nodiscard]] Answer what_if(const trace::TraceFile& file, const Question& question);

}  // namespace gpumemtrace::analyzer::replay
