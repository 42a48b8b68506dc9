// SPDX-License-Identifier: Apache-2.0
// The memory that was live at one moment, such as a peak.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/accounts/live_allocation.hpp"

namespace gpumemtrace::analyzer {

// The bytes that one group of allocations held at a peak before a checkpoint.
struct RestoredHolder {
  std::uint32_t group = 0;
  bool segment = false;  // its memory was segments of the framework
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

// Remembers the memory that was live at the last peak of a kind (the highest one so far, say)
// without copying all of it: that memory is the allocations older than the peak that are still
// live, and those freed since, which are kept here. The live memory at the peak bounds the
// snapshot's size.
class PeakSnapshot {
 public:
  // A snapshot of the present: everything that is live counts, and nothing that has ended.
  [[nodiscard]] static PeakSnapshot now() {
    PeakSnapshot snapshot;
    snapshot.time_ = ~std::uint64_t{0};
    return snapshot;
  }
  void set(std::uint64_t time, std::uint64_t bytes) {
    time_ = time;
    bytes_ = bytes;
    is_restored_ = false;
    released_.clear();
    restored_.clear();
  }
  // Sets a peak that a checkpoint recorded. add_holder() is then called for each group that held
  // memory at the peak.
  void restore(std::uint64_t time, std::uint64_t bytes) {
    set(time, bytes);
    is_restored_ = true;
  }
  void add_holder(const RestoredHolder& holder) { restored_.push_back(holder); }
  // Called if `entry` turns out to be a segment of the framework: a restored peak then counts its
  // bytes as those of a segment. `group`: that under which add_holder() counted them.
  void count_as_segment(const LiveAllocation& entry, std::uint32_t group);
  void add_release(const ReleasedAllocation& released) {
    if (was_live(released.entry)) released_.push_back(released);
  }
  [[nodiscard]] bool was_live(const LiveAllocation& entry) const {
    return entry.born <= time_ && !is_restored_;
  }

  [[nodiscard]] bool happened() const { return time_ != 0; }
  // True if a checkpoint gave the peak: the bytes of each group are known, but not the addresses.
  [[nodiscard]] bool is_restored() const { return is_restored_; }
  [[nodiscard]] std::uint64_t time() const { return time_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::vector<ReleasedAllocation>& released() const { return released_; }
  [[nodiscard]] const std::vector<RestoredHolder>& restored() const { return restored_; }

 private:
  std::uint64_t time_ = 0;  // 0 = the peak has not happened
  std::uint64_t bytes_ = 0;
  bool is_restored_ = false;
  std::vector<ReleasedAllocation> released_;
  std::vector<RestoredHolder> restored_;
};

}  // namespace gpumemtrace::analyzer
