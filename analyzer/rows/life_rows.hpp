// SPDX-License-Identifier: Apache-2.0
// Rows on single allocations: their sizes and lifetimes, and the largest ones.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// The allocations of one level on one device of from_bytes or more and less than to_bytes, which
// are powers of two. Ranges without any are left out. The rows of a level sum to allocations and
// allocated_bytes_total of its usage[]; the row without a range has those that a checkpoint
// replaced.
struct SizeRange : OnLevel {
  OptionalNumber from_bytes;
  OptionalNumber to_bytes;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  // the sum over these allocations
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, from_bytes, to_bytes, count, bytes);
    v.exact(self.is_exact);
  }
};

// The allocations of one level on one device that lived from_ns or longer and less than to_ns. The
// row without a range has those that lived to the end of the trace, and those that a checkpoint
// replaced.
struct LifetimeRange : OnLevel {
  OptionalNumber from_ns;
  OptionalNumber to_ns;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  // the sum over these allocations
  bool is_exact = true;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, from_ns, to_ns, count, bytes);
    v.exact(self.is_exact);
  }
};

// Allocations of one site that their thread freed before its next allocation, the site with the
// most first. (For blocks of the framework the next block, else the next allocation of any kind.)
// After 300 of a process, one row with the owner "other" has the rest of each level and device.
struct Temporary : OnLevel {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t allocations = 0;  // all allocations of the site
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
  JobTime start_ns = 0;
  OptionalTime end_ns;  // null: it was live when the trace ended
  Category category = Category::kUnknown;
  Confidence category_confidence = Confidence::kNone;
  OptionalName<Secret::kTensor> name;  // that the program gave the tensor in it
  OptionalLayers layers;               // the layers that allocated it, as `module` of Holder
  Origin origin;

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, process, device, level, bytes, start_ns, end_ns, category,
                     category_confidence, name);
    v("module", self.layers);
    Origin::fields(self.origin, v);
  }
};

// One allocation from its beginning to its end. Each process, device and level has those with the
// most bytes times time, the largest first, and then the largest of those that were live at the
// peak: 512 of each, down to 8 in jobs of hundreds of processes.
struct LargestBlock : Block {
  bool is_at_peak = false;  // it was live at the peak of its level on its device

  static void fields(auto& self, auto& v) {
    Block::fields(self, v);
    v("at_peak", self.is_at_peak);
  }
};

// One allocation that was live at a given time, of each process, device and level the largest
// first. They sum to the live bytes of that time. There are none of a peak before a checkpoint's
// cut.
struct BlockAt : Block {
  // peak: of its own process, device and level (--blocks at-peak); time: after everything up to
  // time_ns (--at)
  BlocksAt at = BlocksAt::kPeak;
  JobTime time_ns = 0;
  OptionalNumber address;  // null: arrays and physical memory have a handle instead

  static void fields(auto& self, auto& v) {
    Block::fields(self, v);
    GPUMEMTRACE_KEYS(v, at, time_ns, address);
  }
};

}  // namespace gpumemtrace::analyzer::rows
