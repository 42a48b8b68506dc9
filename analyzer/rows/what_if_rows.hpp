// SPDX-License-Identifier: Apache-2.0
// Rows on the memory that a framework's allocator would have needed under other settings.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// The source of the numbers in a row of what_if[].rows[].
enum class WhatIfBasis : std::uint8_t { kReplayed, kSampled, kEstimated, kBracket };
constexpr auto names(WhatIfBasis) {
  return std::to_array<std::string_view>({"replayed", "sampled", "estimated", "bracket"});
}

// Tells if a run fits a card.
struct WhatIfFit {
  std::uint64_t capacity_bytes = 0;
  std::optional<bool> fits;
  std::optional<std::int64_t> margin_bytes;

  GPUMEMTRACE_FIELDS(capacity_bytes, fits, margin_bytes)
};

// One setting.
struct WhatIfRow {
  std::string policy;
  OptionalText options;  // the text that sets it
  OptionalNumber reserved_peak_bytes;
  OptionalNumber low_bytes;
  OptionalNumber high_bytes;
  OptionalNumber allocated_peak_bytes;
  OptionalNumber retries;
  OptionalNumber segments;
  OptionalNumber segment_calls;
  OptionalNumber raised;
  std::vector<WhatIfFit> fits;
  WhatIfBasis basis = WhatIfBasis::kReplayed;
  OptionalText warning;
  OptionalText reason;

  static void fields(auto& self, auto& v) {
    v("policy", self.policy);
    v.only_if_known("options", self.options);
    GPUMEMTRACE_KEYS(v, reserved_peak_bytes, low_bytes, high_bytes, allocated_peak_bytes, retries,
                     segments, segment_calls, raised, fits, basis, warning, reason);
  }
};

// The recorded run, replayed.
struct WhatIfRecorded {
  std::string policy;
  std::string options;
  std::optional<bool> proven;  // null if there was nothing to compare with
  std::uint64_t events = 0;
  std::uint64_t mismatches = 0;
  OptionalText first_mismatch;
  std::uint64_t classes = 0;
  std::string requested_sizes;
  std::uint64_t changes = 0;  // of settings, after the first block
  // The fraction of the device that PyTorch was allowed; null if it is not known.
  std::optional<double> memory_fraction;

  GPUMEMTRACE_FIELDS(policy, options, proven, events, mismatches, first_mismatch, classes,
                     requested_sizes, changes, memory_fraction)
};

struct WhatIfIdeal {
  std::uint64_t live_peak_bytes = 0;
  OptionalNumber packed_bytes;
  OptionalNumber packed_window;  // events that were packed, from the first on

  GPUMEMTRACE_FIELDS(live_peak_bytes, packed_bytes, packed_window)
};

// The bytes that blocks of one line make unusable, or the remainder, `other`.
struct WhatIfLine {
  std::uint64_t bytes = 0;
  std::uint64_t releasable_bytes = 0;  // of these, where no block is in use
  Origin origin;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, bytes, releasable_bytes);
    Origin::fields(self.origin, v);
  }
};

struct WhatIfUnusable {
  std::string cause;
  std::uint64_t bytes = 0;
  std::optional<std::vector<WhatIfLine>> lines;  // the last one is the remainder

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, cause, bytes);
    v.added("lines", self.lines);
  }
};

// One process's allocator on one device.
struct WhatIf : OnDevice {
  WhatIfRecorded recorded;
  std::vector<WhatIfRow> rows;  // the recorded settings first
  WhatIfIdeal ideal;
  std::vector<WhatIfUnusable> unusable_at_peak;
  OptionalText lines_reason;  // why these have no lines

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, recorded, rows, ideal, unusable_at_peak);
    v.added("lines_reason", self.lines_reason);
  }
};

}  // namespace gpumemtrace::analyzer::rows
