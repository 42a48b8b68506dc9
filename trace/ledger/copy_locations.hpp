// SPDX-License-Identifier: Apache-2.0
// The memory class of each address of a process, by which the two ends of a copy are told apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trace/ledger/levels.hpp"
#include "trace/ledger/mapped_array.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

enum class MemoryClass : std::uint8_t { kUnknown, kPageable, kPinned, kDevice, kManaged, kArray };

struct Location {
  MemoryClass memory = MemoryClass::kUnknown;
  std::int32_t device = -1;

  friend bool operator==(const Location&, const Location&) = default;
};

// The names of a memory class in a checkpoint and in the report, in the order of MemoryClass.
struct MemoryClassName {
  trace::Place place;
  std::string_view name;
};
inline constexpr std::array<MemoryClassName, 6> kMemoryClassNames = {{
    {trace::Place::kUnknown, "unknown"},
    {trace::Place::kPageable, "pageable"},
    {trace::Place::kPinned, "pinned"},
    {trace::Place::kDevice, "device"},
    {trace::Place::kManaged, "managed"},
    {trace::Place::kArray, "array"},
}};

constexpr std::string_view name_of(MemoryClass memory) {
  return kMemoryClassNames[static_cast<std::size_t>(memory)].name;
}
constexpr trace::Place place_of(MemoryClass memory) {
  return kMemoryClassNames[static_cast<std::size_t>(memory)].place;
}
constexpr MemoryClass class_of(trace::Place place) {
  for (std::size_t i = 0; i < kMemoryClassNames.size(); ++i) {
    if (kMemoryClassNames[i].place == place) return static_cast<MemoryClass>(i);
  }
  return MemoryClass::kUnknown;
}

// The memory class that memory of this level has in a copy, if the driver allocated it.
constexpr MemoryClass class_of(Level level) {
  if (level == Level::kManaged) return MemoryClass::kManaged;
  return level == Level::kHost ? MemoryClass::kPinned : MemoryClass::kDevice;
}

// The location of mapped physical memory, which lies on the device or on the host.
[[nodiscard]] constexpr Location location_of_mapping(std::int32_t device) {
  return {device == kHostDevice ? MemoryClass::kPinned : MemoryClass::kDevice, device};
}
// True if the call maps device memory of another process or API to its address.
[[nodiscard]] constexpr bool maps_device_memory(trace::ImportOperation operation) {
  return operation == trace::ImportOperation::kIpcOpen ||
         operation == trace::ImportOperation::kPoolImportPointer ||
         operation == trace::ImportOperation::kExternalMap ||
         operation == trace::ImportOperation::kGraphicsPointer;
}

// Maps ranges of addresses to the locations of their memory.
// - Device and managed ranges stay in the map after their free: the driver keeps the address space,
//   so allocating there again costs one comparison. Host ranges leave the map when they are freed,
//   because the same pages are pageable memory afterwards.
// - Device ranges are widened to whole pages of the driver's address space, and neighbours of one
//   kind are joined, so the map stays small.
// - failed() if the system had no memory; results are worthless then.
class CopyLocations {
 public:
  void set(std::uint64_t address, std::uint64_t bytes, Location location) {
    const std::uint32_t hint = hint_of(address);
    if (hint < ranges_.size()) {
      const Range& range = ranges_[hint];
      if (range.begin <= address && bytes <= range.end - range.begin &&
          address - range.begin <= range.end - range.begin - bytes && range.location == location) {
        return;
      }
    }
    set_slowly(address, bytes, location);
  }
  void forget(std::uint64_t address, std::uint64_t bytes);
  // The location of an address; kUnknown if nothing is known about it.
  [[nodiscard]] Location find(std::uint64_t address) const;
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  // The driver hands out device address space in pages of this size, so an address on the same page
  // as device memory is device memory.
  static constexpr int kPageShift = 21;
  static constexpr std::uint64_t kPageBytes = std::uint64_t{1} << kPageShift;

  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    Location location;
  };

  [[nodiscard]] std::uint32_t& hint_of(std::uint64_t address) const {
    return hints_[((address >> kPageShift) * 0x9E37'79B9'7F4A'7C15u) >> 56];
  }
  void set_slowly(std::uint64_t address, std::uint64_t bytes, Location location);
  void insert(const Range& range);
  [[nodiscard]] bool has_no_other_kind(std::uint64_t begin, std::uint64_t end,
                                       Location location) const;
  [[nodiscard]] std::size_t first_ending_after(std::uint64_t address) const;

  void add(std::size_t index, const Range& range) {
    if (!ranges_.insert(index, range)) failed_ = true;
  }

  MappedArray<Range> ranges_;  // ranges of addresses, sorted and disjoint
  bool failed_ = false;
  // For each hash of a page, the index in ranges_ of the range found last for such a page. This is
  // a hint: the range must be checked.
  mutable std::array<std::uint32_t, 256> hints_{};
};

// The location of one end of a copy. The address decides; the type in the call's arguments counts
// only if nothing is known about the address. `blind`: allocations are missing from the trace, so
// an unknown address may be anything.
[[nodiscard]] Location locate(const CopyLocations& map, std::uint64_t address, trace::EndType said,
                              std::int32_t context_device, bool blind);

}  // namespace gpumemtrace::ledger
