// SPDX-License-Identifier: Apache-2.0
// Rows on single allocations: their sizes and lifetimes, and the largest ones.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// The allocations of one level on one device in a range of sizes. Without a range: those whose
// single sizes are not known.
struct SizeRange : OnLevel {
  OptionalNumber from_bytes;
  OptionalNumber to_bytes;  // less than that
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, from_bytes, to_bytes, count, bytes);
    v.exact(self.is_exact);
  }
};

// The same by lifetime. Without a range: those that did not end, or whose lifetime is not
// known.
struct LifetimeRange : OnLevel {
  OptionalNumber from_ns;
  OptionalNumber to_ns;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, from_ns, to_ns, count, bytes);
    v.exact(self.is_exact);
  }
};

// Allocations of one site that their thread freed before its next allocation.
struct Temporary : OnLevel {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t allocations = 0;  // of the site, these and others
  Origin origin;
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, count, bytes, allocations);
    Origin::fields(self.origin, v);
    v.exact(self.is_exact);
  }
};

// One allocation from its beginning to its end.
struct Block : OnLevel {
  std::uint64_t bytes = 0;
  std::uint64_t start_ns = 0;
  OptionalNumber end_ns;  // none: it was live when the trace ended
  Category category = Category::kUnknown;
  Confidence category_confidence = Confidence::kNone;
  OptionalText name;    // that the program gave its tensor
  OptionalText layers;  // as of a holder
  Origin origin;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, bytes, start_ns, end_ns, category,
                     category_confidence, name);
    v("module", self.layers);
    Origin::fields(self.origin, v);
  }
};

struct LargestBlock : Block {
  bool is_at_peak = false;  // it was live then

  static void fields(auto& self, auto& v) {
    Block::fields(self, v);
    v("at_peak", self.is_at_peak);
  }
};

// One that was live at a given time.
struct BlockAt : Block {
  BlocksAt at = BlocksAt::kPeak;
  std::uint64_t time_ns = 0;
  OptionalNumber address;  // none: it has a handle instead

  static void fields(auto& self, auto& v) {
    Block::fields(self, v);
    GPUMEMTRACE_KEYS(v, at, time_ns, address);
  }
};

}  // namespace gpumemtrace::analyzer::rows
