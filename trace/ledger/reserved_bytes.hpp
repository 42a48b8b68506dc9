// SPDX-License-Identifier: Apache-2.0
// The bytes of a device that a framework's caching allocator has reserved.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// Reserved bytes: the framework's own last report, and the growth since then of the segments that
// are known from the trace.
struct ReservedBytes {
  std::uint64_t segment_bytes = 0;
  // model time of the last report; 0 = the framework never reported
  std::uint64_t reported_time = 0;
  std::uint64_t reported_reserved = 0;
  std::uint64_t segment_bytes_then = 0;  // segment_bytes at the time of the last report
  std::uint64_t reserved_peak_bytes = 0;

  [[nodiscard]] std::uint64_t reserved_bytes() const {
    if (reported_time == 0) return segment_bytes;
    return reported_reserved + segment_bytes - segment_bytes_then;
  }
  // Adds memory, handed out by the driver at `born_time`, that turns out to be a segment of the
  // framework.
  void grow(std::uint64_t bytes, std::uint64_t born_time) {
    segment_bytes += bytes;
    // The first block in a segment may come long after the framework got and counted the segment.
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

  // Stores in a checkpoint's record the peak, and the bytes that the framework had reserved at the
  // cut, the time up to which the checkpoint replaces records.
  void store(trace::Peak& peak) const {
    peak.scope = trace::PeakScope::kFrameworkReserved;
    peak.bytes = reserved_peak_bytes;
    peak.peak_time = reported_time;
    peak.pool_reserved = reserved_bytes();
  }
  // Restores the framework's last report from a checkpoint's record. The caller has already added
  // the segments that were live at the cut.
  void restore(const trace::Peak& peak) {
    reserved_peak_bytes = peak.bytes;
    if (peak.peak_time == 0) return;
    reported_time = peak.peak_time;
    reported_reserved = peak.pool_reserved;
    segment_bytes_then = segment_bytes;
  }
};

}  // namespace gpumemtrace::ledger
