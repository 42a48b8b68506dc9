// SPDX-License-Identifier: Apache-2.0
// The bytes that a framework's caching allocator holds of a device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// The framework's own last report, and the growth of its segments since then.
struct ReservedBytes {
  std::uint64_t segment_bytes = 0;
  std::uint64_t reported_time = 0;  // model time; 0 = never
  std::uint64_t reported_reserved = 0;
  std::uint64_t segment_bytes_then = 0;  // how large our segments were when it said so
  std::uint64_t reserved_peak_bytes = 0;

  [[nodiscard]] std::uint64_t reserved_bytes() const {
    if (reported_time == 0) return segment_bytes;
    return reported_reserved + segment_bytes - segment_bytes_then;
  }
  // Memory that the driver handed out at `born_time` turns out to be the framework's.
  void grow(std::uint64_t bytes, std::uint64_t born_time) {
    segment_bytes += bytes;
    // The first block in a segment may come long after the framework got the segment and counted
    // it.
    if (born_time < reported_time) segment_bytes_then += bytes;
    reserved_peak_bytes = std::max(reserved_peak_bytes, reserved_bytes());
  }
  void shrink(std::uint64_t bytes) { segment_bytes -= bytes; }
  void report(std::uint64_t reserved, std::uint64_t now) {
    reported_time = now;
    reported_reserved = reserved;
    segment_bytes_then = segment_bytes;
    reserved_peak_bytes = std::max(reserved_peak_bytes, reserved);
  }

  // A checkpoint keeps the peak, and what the framework held at the cut.
  void store(trace::Peak& peak) const {
    peak.scope = trace::PeakScope::kFrameworkReserved;
    peak.bytes = reserved_peak_bytes;
    peak.peak_time = reported_time;
    peak.pool_reserved = reserved_bytes();
  }
  // Memory that was live at the cut was counted before.
  void restore(const trace::Peak& peak) {
    reserved_peak_bytes = peak.bytes;
    if (peak.peak_time == 0) return;
    reported_time = peak.peak_time;
    reported_reserved = peak.pool_reserved;
    segment_bytes_then = segment_bytes;
  }
};

}  // namespace gpumemtrace::ledger
