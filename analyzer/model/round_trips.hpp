// Copies up that bring back what a copy down has just taken, told by addresses and sizes alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::analyzer {

// - What the buffers hold is not known: a program may have changed it on the host.
// - Of copies down that share a slot the last one counts, so some round trips may be missed.
class RoundTrips {
 public:
  struct Way {
    std::uint64_t device_address = 0;
    std::uint64_t host_address = 0;
    std::uint64_t bytes = 0;
    friend bool operator==(const Way&, const Way&) = default;
  };

  void went_down(const Way& way) { ways_[slot_of(way)] = way; }
  // True once after each way down.
  bool comes_back(const Way& way) {
    Way& known = ways_[slot_of(way)];
    if (way.bytes == 0 || !(known == way)) return false;
    known = {};
    return true;
  }

 private:
  static constexpr std::size_t kSlotBits = 10;

  static std::size_t slot_of(const Way& way) {
    const std::uint64_t mixed = (way.host_address + (way.bytes << 20)) * 0x9E37'79B9'7F4A'7C15u;
    return static_cast<std::size_t>(mixed >> (64 - kSlotBits));
  }

  std::array<Way, std::size_t{1} << kSlotBits> ways_{};
};

}  // namespace gpumemtrace::analyzer
