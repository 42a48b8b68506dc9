// SPDX-License-Identifier: Apache-2.0
// Virtual memory management during a fold: physical memory behind handles, and its mappings.
#pragma once

#include <cstdint>

#include "preload/base/address_table.hpp"
#include "preload/base/mapped_array.hpp"
#include "preload/checkpoint/fold_ledger.hpp"
#include "preload/checkpoint/kept_records.hpp"

namespace gpumemtrace::preload {

// Physical memory; it costs its bytes until its handle has no reference and it has no mapping.
struct PhysicalMemory {
  std::uint64_t address =
      0;  // a number of our own: the driver reuses a handle whose memory lives on
  std::uint64_t handle = 0;
  LiveBytes live;
  std::uint32_t group = kNoIndex32;
  std::uint32_t references = 1;
  std::uint32_t mappings = 0;
  KeptId created = 0;
  KeptId released = 0;     // the free that dropped the last reference, while mappings remain
  bool keeps_all = false;  // its records stay in the trace: imported, or retained
};

struct NamedHandle {
  std::uint64_t address = 0;  // the handle
  std::uint64_t memory = 0;
};

struct MappedRange {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t memory = 0;
  KeptId record = 0;
};

struct Reservation {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  KeptId record = 0;
  bool is_segment = false;
};

// Sorted by address; few changes, as mapping is slow itself.
template <class Range>
class RangeList {
 public:
  // Index of the first range that begins at or after the address.
  std::size_t first_from(std::uint64_t address) const noexcept {
    std::size_t first = 0;
    std::size_t count = ranges_.size();
    while (count > 0) {
      const std::size_t half = count / 2;
      const bool before = ranges_[first + half].begin < address;
      first = before ? first + half + 1 : first;
      count = before ? count - half - 1 : half;
    }
    return first;
  }
  Range* find(std::uint64_t begin) noexcept {
    const std::size_t i = first_from(begin);
    return i < ranges_.size() && ranges_[i].begin == begin ? &ranges_[i] : nullptr;
  }
  Range* containing(std::uint64_t address) noexcept {
    const std::size_t after = first_from(address + 1);
    if (after == 0) return nullptr;
    Range& range = ranges_[after - 1];
    return address - range.begin < range.bytes ? &range : nullptr;
  }
  [[nodiscard]] bool add(const Range& range) noexcept {
    return ranges_.insert(first_from(range.begin), range);
  }
  MappedArray<Range>& ranges() noexcept { return ranges_; }

 private:
  MappedArray<Range> ranges_;
};

struct VirtualMemory {
  AddressTable<PhysicalMemory> memories;
  AddressTable<NamedHandle> handles;
  std::uint64_t last_memory = 0;
  RangeList<MappedRange> mappings;
  RangeList<Reservation> reservations;
};

}  // namespace gpumemtrace::preload
