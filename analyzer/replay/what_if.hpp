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
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer::replay {

// The source of a row's numbers.
enum class Basis {
  kReplayed,   // by proven rules, with the sizes that were asked for
  kSampled,    // by proven rules, over sizes and placements that can have been
  kEstimated,  // by rules that this run did not prove
  kBracket,    // between two bounds
};

struct Fit {
  std::uint64_t capacity_bytes = 0;
  std::optional<bool> fits;
  std::optional<std::int64_t> margin_bytes;
};

struct Row {
  std::string policy;                  // the settings in short; "cudaMallocAsync"
  std::optional<std::string> options;  // the text that sets it
  AllocatorSettings settings;
  std::optional<std::uint64_t> reserved_peak_bytes;
  std::optional<std::uint64_t> low_bytes;
  std::optional<std::uint64_t> high_bytes;
  std::optional<std::uint64_t> allocated_peak_bytes;
  std::optional<std::uint64_t> retries;
  std::optional<std::uint64_t> segments;
  std::optional<std::uint64_t> segment_calls;
  std::optional<std::uint64_t> raised;
  std::optional<std::uint64_t> asked_peak_bytes;  // as in AllocatorCounts
  std::vector<Fit> fits;
  Basis basis = Basis::kReplayed;
  std::string warning;
  std::string reason;
};

struct DeviceAnswer {
  std::int32_t device = -1;
  bool is_native = false;         // there are blocks whose places can be compared
  bool is_without_torch = false;  // the requests are the program's calls of the driver
  Proof proof;
  bool sizes_known = false;
  std::uint64_t changes = 0;              // of settings after the first block
  std::optional<double> memory_fraction;  // that the program set; of several the last
  std::uint32_t classes = 0;
  std::vector<Row> rows;  // the recorded settings first
  DeviceFacts facts;
  std::uint64_t live_peak_bytes = 0;
  std::optional<std::uint64_t> packed_bytes;
  std::uint64_t packed_events = 0;
  std::optional<Unusable> unusable;  // of a run that is proven
};

struct Answer {
  std::vector<DeviceAnswer> devices;
};

// Reads the trace a few times. The same trace and question give the same answer.
// Throws SettingError for settings that PyTorch of the trace's version does not take.
[[nodiscard]] Answer what_if(const trace::TraceFile& file, const Question& question);

}  // namespace gpumemtrace::analyzer::replay
