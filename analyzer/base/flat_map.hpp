// SPDX-License-Identifier: Apache-2.0
// The hash map trace/ledger/flat_map.hpp with its slots on the heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/ledger/flat_map.hpp"

namespace gpumemtrace::analyzer {

template <class Value>
class HeapArray {
 public:
  // Always returns true: throws if there is no memory.
  [[nodiscard]] bool resize(std::size_t size) {
    values_.resize(size);
    return true;
  }
  void swap(HeapArray& other) noexcept { values_.swap(other.values_); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] Value* data() { return values_.data(); }
  [[nodiscard]] Value& operator[](std::size_t index) { return values_[index]; }
  [[nodiscard]] const Value& operator[](std::size_t index) const { return values_[index]; }
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }

 private:
  std::vector<Value> values_;
};

inline constexpr std::size_t kSparseSlots = std::size_t{1} << 15;

template <class Slot, std::uint64_t Slot::*kKey>
using FlatMap = ledger::FlatMap<Slot, kKey, HeapArray, kSparseSlots>;

}  // namespace gpumemtrace::analyzer
