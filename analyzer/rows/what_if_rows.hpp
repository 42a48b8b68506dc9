// SPDX-License-Identifier: Apache-2.0
// Rows on what a framework's allocator would have needed under other settings.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// How a row of what_if[].rows[] knows what it says.
enum class WhatIfBasis : std::uint8_t { kReplayed, kSampled, kEstimated, kBracket };
constexpr std::string_view name_of(WhatIfBasis basis) {
  constexpr std::array<std::string_view, 4> kNames = {"replayed", "sampled", "estimated",
                                                      "bracket"};
  return kNames[static_cast<std::size_t>(basis)];
}
constexpr std::size_t word_count(WhatIfBasis) { return 4; }

// Whether a run fits a card.
struct WhatIfFit {
  std::uint64_t capacity_bytes = 0;
  std::optional<bool> fits;
  std::optional<std::int64_t> margin_bytes;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("capacity_bytes", self.capacity_bytes);
    v("fits", self.fits);
    v("margin_bytes", self.margin_bytes);
  }
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

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("policy", self.policy);
    v.only_if_known("options", self.options);
    v("reserved_peak_bytes", self.reserved_peak_bytes);
    v("low_bytes", self.low_bytes);
    v("high_bytes", self.high_bytes);
    v("allocated_peak_bytes", self.allocated_peak_bytes);
    v("retries", self.retries);
    v("segments", self.segments);
    v("segment_calls", self.segment_calls);
    v("raised", self.raised);
    v("fits", self.fits);
    v("basis", self.basis);
    v("warning", self.warning);
    v("reason", self.reason);
  }
};

// The recorded run, replayed.
struct WhatIfRecorded {
  std::string policy;
  std::string options;
  std::optional<bool> proven;  // null where there was nothing to compare with
  std::uint64_t events = 0;
  std::uint64_t mismatches = 0;
  OptionalText first_mismatch;
  std::uint64_t classes = 0;
  std::string requested_sizes;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("policy", self.policy);
    v("options", self.options);
    v("proven", self.proven);
    v("events", self.events);
    v("mismatches", self.mismatches);
    v("first_mismatch", self.first_mismatch);
    v("classes", self.classes);
    v("requested_sizes", self.requested_sizes);
  }
};

struct WhatIfIdeal {
  std::uint64_t live_peak_bytes = 0;
  OptionalNumber packed_bytes;
  OptionalNumber packed_window;  // events that were packed, from the first on

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("live_peak_bytes", self.live_peak_bytes);
    v("packed_bytes", self.packed_bytes);
    v("packed_window", self.packed_window);
  }
};

// What blocks of one line make unusable, or the remainder, `other`.
struct WhatIfLine {
  std::uint64_t bytes = 0;
  std::uint64_t releasable_bytes = 0;  // of these, where no block is in use
  Origin origin;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("bytes", self.bytes);
    v("releasable_bytes", self.releasable_bytes);
    Origin::fields(self.origin, v);
  }
};

struct WhatIfUnusable {
  std::string cause;
  std::uint64_t bytes = 0;
  std::optional<std::vector<WhatIfLine>> lines;  // the last one is the remainder

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("cause", self.cause);
    v("bytes", self.bytes);
    v.added("lines", self.lines);
  }
};

// One process's allocator on one device.
struct WhatIf {
  std::string process;
  OptionalText device;
  WhatIfRecorded recorded;
  std::vector<WhatIfRow> rows;  // the recorded settings first
  WhatIfIdeal ideal;
  std::vector<WhatIfUnusable> unusable_at_peak;
  OptionalText lines_reason;  // why these have no lines

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("device", self.device);
    v("recorded", self.recorded);
    v("rows", self.rows);
    v("ideal", self.ideal);
    v("unusable_at_peak", self.unusable_at_peak);
    v.added("lines_reason", self.lines_reason);
  }
};

}  // namespace gpumemtrace::analyzer::rows
