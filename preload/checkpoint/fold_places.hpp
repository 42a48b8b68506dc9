// SPDX-License-Identifier: Apache-2.0
// What lies where in the address space, for telling the two ends of folded copies apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/base/mapped_array.hpp"
#include "trace/checkpoint_records.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

struct PlaceOf {
  trace::Place place = trace::Place::kUnknown;
  std::int32_t device = -1;
  friend bool operator==(const PlaceOf&, const PlaceOf&) = default;
};

// Keeps the rules of the analyzer's address map (analyzer/model/memory/address_map.hpp), so that a
// copy counts the same whether it is folded or not; a test compares the two:
// - Device and managed ranges stay known after their free, host ranges are forgotten exactly.
// - Device ranges are widened to whole pages of the driver's address space.
class Places {
 public:
  // False where there is no memory.
  [[nodiscard]] bool set(std::uint64_t address, std::uint64_t bytes, PlaceOf place) noexcept;
  [[nodiscard]] bool forget(std::uint64_t address, std::uint64_t bytes) noexcept;
  PlaceOf find(std::uint64_t address) noexcept;

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    PlaceOf place;
  };

  [[nodiscard]] bool insert(const Range& range) noexcept;
  bool is_free_for(std::uint64_t begin, std::uint64_t end, PlaceOf place) const noexcept;
  std::size_t first_ending_after(std::uint64_t address) const noexcept;
  bool contains(std::size_t index, std::uint64_t address) const noexcept {
    return index < ranges_.size() && ranges_[index].begin <= address &&
           address < ranges_[index].end;
  }

  MappedArray<Range> ranges_;  // sorted, disjoint
  std::size_t last_ = 0;
};

}  // namespace gpumemtrace::preload
