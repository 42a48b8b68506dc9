// SPDX-License-Identifier: Apache-2.0
// The part of each allocation of pinned host memory that the program's copies used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "analyzer/model/accounts/live_allocation.hpp"

namespace gpumemtrace::analyzer {

class PinnedUse {
 public:
  // A copy read or wrote so many bytes from the start of the allocation on.
  void add(const LiveAllocation& memory, std::uint64_t bytes) {
    const auto key = std::make_pair(memory.address, memory.born);
    auto found = used_bytes_.find(key);
    if (found == used_bytes_.end()) {
      if (used_bytes_.size() == kMaxAllocations) return;
      found = used_bytes_.emplace(key, 0).first;
    }
    found->second = std::max(found->second, std::min(bytes, memory.bytes));
  }
  // 0 if no copy began at the start of the allocation, or if there were too many allocations.
  [[nodiscard]] std::uint64_t bytes_of(const LiveAllocation& memory) const {
    const auto found = used_bytes_.find({memory.address, memory.born});
    return found == used_bytes_.end() ? 0 : found->second;
  }

 private:
  static constexpr std::size_t kMaxAllocations = 1 << 16;

  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> used_bytes_;
};

}  // namespace gpumemtrace::analyzer
