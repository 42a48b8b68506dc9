// SPDX-License-Identifier: Apache-2.0
// Free blocks of one stream and pool in the order in which the allocator looks at them: by size,
// among equals by address.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumemtrace::analyzer::replay {

// A block of one CachingAllocator; 0 = none.
using BlockId = std::uint32_t;

class FreeBlocks {
 public:
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint64_t address = 0;  // of one block only
    BlockId block = 0;
  };

  void insert(const Entry& entry) {
    entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(find(entry)), entry);
    bytes_ += entry.bytes;
  }
  void erase(const Entry& entry) { erase_at(find(entry)); }
  void erase_at(std::size_t index) {
    bytes_ -= entries_[index].bytes;
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  // Takes one out and puts another in: only what stands between their places moves.
  void replace(const Entry& old, const Entry& entry) { replace_at(find(old), entry); }
  void replace_at(std::size_t index, const Entry& entry) {
    bytes_ += entry.bytes - entries_[index].bytes;
    const auto at = [&](std::size_t i) {
      return entries_.begin() + static_cast<std::ptrdiff_t>(i);
    };
    const std::size_t place = find(entry);
    if (place <= index) {
      std::move_backward(at(place), at(index), at(index + 1));
      entries_[place] = entry;
    } else {
      std::move(at(index + 1), at(place), at(index));
      entries_[place - 1] = entry;
    }
  }
  // Index of the first that has at least so many bytes; size() where none has.
  [[nodiscard]] std::size_t first_of_at_least(std::uint64_t bytes) const {
    return find({bytes, 0, 0});
  }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] const Entry& operator[](std::size_t index) const { return entries_[index]; }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  [[nodiscard]] std::size_t find(const Entry& entry) const {
    const auto is_before = [](const Entry& a, const Entry& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.address < b.address;
    };
    return static_cast<std::size_t>(
        std::lower_bound(entries_.begin(), entries_.end(), entry, is_before) - entries_.begin());
  }

  std::vector<Entry> entries_;  // sorted
  std::uint64_t bytes_ = 0;
};

}  // namespace gpumemtrace::analyzer::replay
