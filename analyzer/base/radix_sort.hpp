// SPDX-License-Identifier: Apache-2.0
// Sorts many elements by keys of 32 bits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gpumemtrace::analyzer {

// A radix sort, from the lowest digit on: it makes no comparison, and so has no branch that depends
// on the keys.
// - The sort is stable: elements with the same key stay in their order.
// - A digit has about as many values as there are elements, so to sort few elements takes little
//   time.
template <class Element, std::uint32_t Element::*kKey>
class RadixSorter {
 public:
  // Sorts the first `count` elements; none of them has a key larger than `largest_key`.
  void sort(std::vector<Element>& elements, std::size_t count, std::uint32_t largest_key) {
    const int bits = static_cast<int>(std::bit_width(largest_key));
    const int most =
        std::clamp(static_cast<int>(std::bit_width(count)), kMinDigitBits, kMaxDigitBits);
    const int passes = (bits + most - 1) / most;
    if (passes == 0) return;
    const int digit_bits = (bits + passes - 1) / passes;
    sorted_.resize(elements.size());
    for (int pass = 0; pass < passes; ++pass) {
      sort_by_digit({elements.data(), count}, pass * digit_bits, digit_bits);
      elements.swap(sorted_);
    }
  }

 private:
  static constexpr int kMinDigitBits = 4;
  static constexpr int kMaxDigitBits = 11;

  void sort_by_digit(std::span<const Element> elements, int shift, int digit_bits) {
    const std::uint32_t mask = (std::uint32_t{1} << digit_bits) - 1;
    const auto digit_of = [&](const Element& element) { return (element.*kKey >> shift) & mask; };
    std::fill_n(places_.begin(), mask + 1, 0);
    for (const Element& element : elements) ++places_[digit_of(element)];
    std::uint32_t place = 0;
    for (std::uint32_t digit = 0; digit <= mask; ++digit) {
      place += std::exchange(places_[digit], place);
    }
    Element* const sorted = sorted_.data();
    for (const Element& element : elements) sorted[places_[digit_of(element)]++] = element;
  }

  // For each value of a digit, the index at which the next element with that value is stored.
  std::array<std::uint32_t, std::size_t{1} << kMaxDigitBits> places_{};
  std::vector<Element> sorted_;
};

}  // namespace gpumemtrace::analyzer
