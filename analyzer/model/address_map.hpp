// What lies where in the address space of a process, for telling the two ends of a copy apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumemtrace::analyzer {

enum class MemoryClass : std::uint8_t { kUnknown, kPageable, kPinned, kDevice, kManaged, kArray };

struct Location {
  MemoryClass memory = MemoryClass::kUnknown;
  std::int32_t device = -1;

  friend bool operator==(const Location&, const Location&) = default;
};

// - Device and managed ranges stay known after their free: the driver keeps its address space, and
//   so an allocation loop costs one comparison here. Host ranges are forgotten exactly, because the
//   same pages are pageable memory afterwards.
// - Device ranges are widened to whole pages of the driver's address space, and neighbours of one
//   kind are joined, so the map stays small.
class AddressMap {
 public:
  void set(std::uint64_t address, std::uint64_t bytes, Location location) {
    if (last_ < ranges_.size()) {
      const Range& range = ranges_[last_];
      if (range.begin <= address && bytes <= range.end - range.begin &&
          address - range.begin <= range.end - range.begin - bytes && range.location == location) {
        return;
      }
    }
    set_slowly(address, bytes, location);
  }
  void forget(std::uint64_t address, std::uint64_t bytes);
  // kUnknown where nothing is known about the address.
  [[nodiscard]] Location find(std::uint64_t address) const;

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    Location location;
  };

  void set_slowly(std::uint64_t address, std::uint64_t bytes, Location location);
  void insert(const Range& range);
  [[nodiscard]] bool is_free_for(std::uint64_t begin, std::uint64_t end, Location location) const;
  [[nodiscard]] std::size_t first_ending_after(std::uint64_t address) const;

  std::vector<Range> ranges_;  // sorted, disjoint
  mutable std::size_t last_ = 0;
};

}  // namespace gpumemtrace::analyzer
