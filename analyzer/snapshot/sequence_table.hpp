// SPDX-License-Identifier: Apache-2.0
// A table of sequences of values that stores each distinct sequence once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gpumemtrace::analyzer::snapshot {

// Numbers distinct sequences from 1 on; 0 is the empty sequence. Throws std::length_error if there
// are more values than 32 bits count.
template <class Value>
class SequenceTable {
  static_assert(std::has_unique_object_representations_v<Value>, "sequences are compared by bytes");

 public:
  [[nodiscard]] std::uint32_t intern(std::span<const Value> values) {
    if (values.empty()) return 0;
    if (slots_.size() < 2 * ends_.size()) grow();
    const std::uint64_t hash = hash_of(values);
    for (std::uint64_t slot = hash & mask();; slot = (slot + 1) & mask()) {
      if (slots_[slot] == 0) return slots_[slot] = add(values);
      if (std::ranges::equal(bytes_of((*this)[slots_[slot]]), bytes_of(values)))
        return slots_[slot];
    }
  }
  [[nodiscard]] std::span<const Value> operator[](std::uint32_t number) const {
    if (number == 0) return {};
    return std::span(values_).subspan(ends_[number - 1], ends_[number] - ends_[number - 1]);
  }
  // One more than the largest number of a sequence.
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }

 private:
  static std::string_view bytes_of(std::span<const Value> values) {
    return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
  }
  static std::uint64_t hash_of(std::span<const Value> values) {
    return std::hash<std::string_view>{}(bytes_of(values));
  }
  [[nodiscard]] std::uint64_t mask() const { return slots_.size() - 1; }
  std::uint32_t add(std::span<const Value> values) {
    constexpr std::size_t kLimit = std::numeric_limits<std::uint32_t>::max();
    if (values.size() > kLimit - values_.size()) throw std::length_error("too many values");
    values_.insert(values_.end(), values.begin(), values.end());
    ends_.push_back(static_cast<std::uint32_t>(values_.size()));
    return size() - 1;
  }
  void grow() {
    slots_.assign(std::bit_ceil(4 * ends_.size()), 0);
    for (std::uint32_t number = 1; number < size(); ++number) {
      std::uint64_t slot = hash_of((*this)[number]) & mask();
      while (slots_[slot] != 0) slot = (slot + 1) & mask();
      slots_[slot] = number;
    }
  }

  std::vector<Value> values_;
  std::vector<std::uint32_t> ends_{0};  // the end of each sequence in values_
  std::vector<std::uint32_t> slots_;    // a hash table of numbers, at most half full; 0 is free
};

}  // namespace gpumemtrace::analyzer::snapshot
