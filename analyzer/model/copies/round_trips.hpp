// SPDX-License-Identifier: Apache-2.0
// Copies up that bring back what a copy down has just taken, recognized by addresses and sizes
// alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gpumemtrace::analyzer {

// - The content of the buffers is not known: a program may have changed it on the host.
// - If copies down share a slot the last one counts, so some round trips may be missed.
class RoundTrips {
 public:
  struct Way {
    std::uint64_t device_address = 0;
    std::uint64_t host_address = 0;
    std::uint64_t bytes = 0;
    friend bool operator==(const Way&, const Way&) = default;
  };

  // The copy down: the transfer row that it was counted in, the end and the duration of its call,
  // and the birth of the GPU memory that it left; 0 = not known.
  struct Down {
    std::uint32_t row = 0;
    std::uint64_t end_ticks = 0;
    std::uint64_t host_ticks = 0;
    std::uint64_t memory_born = 0;
  };

  void went_down(const Way& way, const Down& down) { trips_[slot_of(way)] = {way, down}; }
  // The way down of bytes that come back; reported once for each.
  [[nodiscard]] std::optional<Down> comes_back(const Way& way) {
    Trip& known = trips_[slot_of(way)];
    if (way.bytes == 0 || !(known.way == way)) return std::nullopt;
    const Down down = known.down;
    known = {};
    return down;
  }

 private:
  struct Trip {
    Way way;
    Down down;
  };

  static constexpr std::size_t kSlotBits = 10;

  static std::size_t slot_of(const Way& way) {
    const std::uint64_t mixed = (way.host_address + (way.bytes << 20)) * 0x9E37'79B9'7F4A'7C15u;
    return static_cast<std::size_t>(mixed >> (64 - kSlotBits));
  }

  std::array<Trip, std::size_t{1} << kSlotBits> trips_{};
};

}  // namespace gpumemtrace::analyzer
