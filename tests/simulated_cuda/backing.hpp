// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::cuda_abi::simulated {

// The bytes behind simulated device addresses.
//
//   device addresses   |......PROT_NONE, what the program sees......|
//                              | same offset
//   host window        |......readable, writable, committed when touched......|
//                              | file offset
//   memory file        |......sparse, shared with processes that open it......|
//
// A program that reads a device address on the host therefore crashes, as on a real GPU. There are
// two regions: a wide one, and a small one below 4 GiB for the 32-bit legacy functions.
// Not thread-safe: the driver's lock covers it.
class Backing {
 public:
  // Reserves the wide address region. Returns false if the operating system refuses.
  bool open();
  // Reserves the region below 4 GiB at its first use. Returns false if there is no room for it.
  bool open_low();

  bool contains(std::uint64_t address) const;
  std::byte* host(std::uint64_t address) const;

  // Another process reaches the same bytes through the memory file, at this offset.
  int file() const { return file_; }
  std::uint64_t file_offset(std::uint64_t address) const;

  // Maps `bytes` of `file`, which may be another process's or this one's, at a device address.
  bool map_file(std::uint64_t address, std::uint64_t bytes, int file, std::uint64_t offset);
  // Maps a device address to its own bytes of the memory file again.
  bool map_own(std::uint64_t address, std::uint64_t bytes);
  // Gives the memory behind a device address back to the operating system.
  void discard(std::uint64_t address, std::uint64_t bytes);

  std::uint64_t wide_base() const { return regions_[0].base; }
  std::uint64_t low_base() const { return regions_[1].base; }

  static constexpr std::uint64_t kWideBytes = std::uint64_t{512} << 30;
  static constexpr std::uint64_t kLowBytes = std::uint64_t{256} << 20;

 private:
  struct Region {
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    std::byte* window = nullptr;
    std::uint64_t file_offset = 0;
  };

  const Region* region_of(std::uint64_t address) const;

  int file_ = -1;
  std::array<Region, 2> regions_{};
};

}  // namespace gpumemtrace::cuda_abi::simulated
