// SPDX-License-Identifier: Apache-2.0
// A list of the most recent elements: it grows at one end and forgets at the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumemtrace::analyzer {

// - Elements are numbered 1, 2, 3, ... and keep their numbers.
// - Memory grows with the kept elements, up to kMost of them; then each new one replaces the
//   oldest. Address space for kMost is reserved with the first, so elements never move.
// - References are valid until the element is forgotten.
template <class Value, std::size_t kMost>
class Recent {
  static_assert((kMost & (kMost - 1)) == 0, "the place of an element is found by a mask");

 public:
  // Adds an element, numbered last(), and returns it. It may still have the value of a forgotten
  // element.
  Value& add() {
    if (is_full()) {
      ++first_;
    } else {
      if (values_.empty()) values_.reserve(kMost);
      values_.emplace_back();
    }
    return values_[place_of(next_++)];
  }
  // The element with the number; nullptr if it is forgotten, or not added yet.
  [[nodiscard]] Value* find(std::uint64_t number) {
    return number - first_ < next_ - first_ ? &values_[place_of(number)] : nullptr;
  }
  [[nodiscard]] std::uint64_t first() const { return first_; }
  [[nodiscard]] std::uint64_t last() const { return next_ - 1; }
  // True if the next add() forgets the oldest element.
  [[nodiscard]] bool is_full() const { return next_ - first_ == kMost; }

 private:
  [[nodiscard]] static std::size_t place_of(std::uint64_t number) {
    return (number - 1) & (kMost - 1);
  }

  std::vector<Value> values_;
  std::uint64_t first_ = 1;
  std::uint64_t next_ = 1;
};

}  // namespace gpumemtrace::analyzer
