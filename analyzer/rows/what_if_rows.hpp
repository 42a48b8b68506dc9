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
  std::optional<bool> fits;  // true if every request is met on such a card
  // The capacity less high_bytes and the other memory on the device at the peak. Below 0 a run fits
  // only because its cache is flushed.
  std::optional<std::int64_t> margin_bytes;

  GPUMEMTRACE_FIELDS(capacity_bytes, fits, margin_bytes)
};

// One setting.
struct WhatIfRow {
  PublicText policy;
  OptionalPublicText options;  // the text that sets it; empty for PyTorch's defaults
  // The most that the allocator takes from the driver; the upper end of a range
  OptionalNumber reserved_peak_bytes;
  OptionalNumber low_bytes;
  OptionalNumber high_bytes;
  OptionalNumber allocated_peak_bytes;  // the most bytes of blocks in use at once
  OptionalNumber retries;               // times that the cache was flushed to meet a request
  OptionalNumber segments;              // the most segments at once; null if they are expandable
  OptionalNumber segment_calls;         // calls that took memory from the driver or gave it back
  // Requests that are refused on the recorded card. The replay ends with the first that the
  // recorded run was not refused.
  OptionalNumber raised;
  std::vector<WhatIfFit> fits;  // for each card size of --capacity, and usual sizes
  // replayed: by rules that the recorded run proves, with the sizes that were asked for. sampled:
  // the same over possible sizes and places of segments; a range. estimated: by rules that this run
  // does not prove. bracket: bounds alone.
  WhatIfBasis basis = WhatIfBasis::kReplayed;
  OptionalPublicText warning;  // about known problems of these settings
  // Why numbers are missing or estimated, or why it is not known if requests are met
  OptionalPublicText reason;

  static void fields(auto& self, auto& v) {
    v("policy", self.policy);
    v.only_if_known("options", self.options);
    GPUMEMTRACE_KEYS(v, reserved_peak_bytes, low_bytes, high_bytes, allocated_peak_bytes, retries,
                     segments, segment_calls, raised, fits, basis, warning, reason);
  }
};

// The recorded run, replayed under its own settings.
struct WhatIfRecorded {
  PublicText policy;
  PublicText options;  // the text of the settings; empty for PyTorch's defaults
  // True if every block had the recorded address and size, every segment its size, and every total
  // its value. null for the backend cudaMallocAsync, whose blocks the driver places.
  std::optional<bool> proven;
  std::uint64_t events = 0;      // blocks handed out, taken back and refused
  std::uint64_t mismatches = 0;  // 1 if something differs: the comparison ends there
  OptionalPublicText first_mismatch;
  // The number of streams and private pools that share no blocks; in traces without streams, by the
  // addresses of the blocks.
  std::uint64_t classes = 0;
  // recorded if the sizes that the program asked for follow from the trace, to 512 bytes
  PublicText requested_sizes;
  std::uint64_t changes = 0;  // changes of settings after the first block
  // The fraction of the device that PyTorch was allowed; null if it is not known.
  std::optional<double> memory_fraction;

  GPUMEMTRACE_FIELDS(policy, options, proven, events, mismatches, first_mismatch, classes,
                     requested_sizes, changes, memory_fraction)
};

struct WhatIfIdeal {
  std::uint64_t live_peak_bytes = 0;  // the most bytes of blocks that are live at once
  // All blocks, packed by their lifetimes into one range of addresses; null if there are too many
  OptionalNumber packed_bytes;
  OptionalNumber packed_window;  // the number of events that were packed, from the first on

  GPUMEMTRACE_FIELDS(live_peak_bytes, packed_bytes, packed_window)
};

// The bytes that blocks of one line make unusable, or the remainder, `other`.
struct WhatIfLine {
  std::uint64_t bytes = 0;
  std::uint64_t releasable_bytes = 0;  // the part in segments or pages without a block in use
  Origin origin;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, bytes, releasable_bytes);
    Origin::fields(self.origin, v);
  }
};

struct WhatIfUnusable {
  PublicText cause;
  std::uint64_t bytes = 0;
  // The ten lines that cause most of it, and the remainder, whose owner is other; they sum to
  // `bytes`. With rounding, the lines that asked for the blocks. Else the lines whose blocks are in
  // use in the segment (or in the page of an expandable one), each by its bytes there; if none is
  // in use, the line whose block was freed there last.
  std::optional<std::vector<WhatIfLine>> lines;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, cause, bytes);
    v.added("lines", self.lines);
  }
};

// The needs of PyTorch's caching allocator under other settings, for a process and device on which
// it was seen (docs/whatif.md).
struct WhatIf : OnDevice {
  WhatIfRecorded recorded;
  std::vector<WhatIfRow> rows;  // the recorded settings first
  WhatIfIdeal ideal;
  // Reserved bytes that no block in use asked for, at the recorded peak. Empty if the recorded run
  // is not proven.
  std::vector<WhatIfUnusable> unusable_at_peak;
  OptionalPublicText lines_reason;  // why unusable_at_peak[] is empty or has no lines

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, recorded, rows, ideal, unusable_at_peak);
    v.added("lines_reason", self.lines_reason);
  }
};

}  // namespace gpumemtrace::analyzer::rows
