// SPDX-License-Identifier: Apache-2.0
// Free blocks of one stream and pool in the order in which the allocator looks at them: by size,
// among equals by address.
#pragma once

#include <algorithm>
#include <compare>
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
    std::uint64_t address = 0;
    BlockId block = 0;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  void insert(const Entry& entry) {
    entries_.insert(std::lower_bound(entries_.begin(), entries_.end(), entry), entry);
    bytes_ += entry.bytes;
  }
  void erase(const Entry& entry) {
    entries_.erase(std::lower_bound(entries_.begin(), entries_.end(), entry));
    bytes_ -= entry.bytes;
  }
  void erase_at(std::size_t index) {
    bytes_ -= entries_[index].bytes;
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  // Index of the first that has at least so many bytes; size() where none has.
  [[nodiscard]] std::size_t first_of_at_least(std::uint64_t bytes) const {
    return static_cast<std::size_t>(
        std::lower_bound(entries_.begin(), entries_.end(), Entry{bytes, 0, 0}) - entries_.begin());
  }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] const Entry& operator[](std::size_t index) const { return entries_[index]; }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<Entry> entries_;  // sorted
  std::uint64_t bytes_ = 0;
};

}  // namespace gpumemtrace::analyzer::replay
