// SPDX-License-Identifier: Apache-2.0
// The addresses that some copies have touched: copies in a loop touch the same ones again, a single
// copy of data does not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumemtrace::analyzer {

// Bounded: of more than kMost ranges the smallest is forgotten, so fewer bytes may be known than
// were touched, never more.
class CoveredRanges {
 public:
  // Adds a range; returns the number of its bytes that lay in an earlier range.
  std::uint64_t add(std::uint64_t begin, std::uint64_t bytes) {
    Range added{begin, begin + bytes};
    if (added.end <= added.begin) return 0;
    const auto first = std::ranges::lower_bound(ranges_, begin, {}, &Range::end);
    if (first != ranges_.end() && first->begin <= begin && added.end <= first->end) return bytes;
    auto last = first;
    std::uint64_t known = 0;
    for (; last != ranges_.end() && last->begin <= added.end; ++last) {
      const std::uint64_t from = std::max(last->begin, begin);
      const std::uint64_t to = std::min(last->end, begin + bytes);
      known += to > from ? to - from : 0;
      added.begin = std::min(added.begin, last->begin);
      added.end = std::max(added.end, last->end);
    }
    ranges_.insert(ranges_.erase(first, last), added);
    if (ranges_.size() > kMost) forget_smallest();
    return known;
  }

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  static constexpr std::size_t kMost = 64;

  void forget_smallest() {
    ranges_.erase(std::ranges::min_element(
        ranges_, {}, [](const Range& range) { return range.end - range.begin; }));
  }

  std::vector<Range> ranges_;  // sorted by address; ranges do not touch
};

}  // namespace gpumemtrace::analyzer
