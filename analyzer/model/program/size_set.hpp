// SPDX-License-Identifier: Apache-2.0
// Sizes of blocks, to recognize them in other blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

namespace gpumemtrace::analyzer {

// Two tensors of one size need not lie in blocks of one size: for memory above a mebibyte PyTorch's
// allocator leaves up to a mebibyte at the end of a block.
class SizeSet {
 public:
  void insert(std::uint64_t bytes) {
    if (sizes_.size() < kMost) sizes_.insert(bytes);
  }
  [[nodiscard]] bool empty() const { return sizes_.empty(); }
  [[nodiscard]] bool has_exactly(std::uint64_t bytes) const { return sizes_.count(bytes) != 0; }
  // True if the block can hold a tensor of one of the sizes.
  [[nodiscard]] bool has(std::uint64_t bytes) const {
    const std::uint64_t slack = bytes > kMostExact ? std::min(kSlack, bytes / 4) : 0;
    const auto found = sizes_.lower_bound(bytes - slack);
    return found != sizes_.end() && *found <= bytes + slack;
  }

 private:
  static constexpr std::size_t kMost = 1 << 16;
  static constexpr std::uint64_t kMostExact = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kSlack = std::uint64_t{1} << 20;

  std::set<std::uint64_t> sizes_;
};

}  // namespace gpumemtrace::analyzer
