// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace gpumemtrace::cuda_abi::simulated {

// Hands out parts of an address range from its free ranges (holes): the smallest hole that fits,
// the lowest among equals. An address that was just given back is therefore soon given out again,
// as by the real driver. Not thread-safe: the driver's lock covers it.
class FreeRanges {
 public:
  // Adjacent holes are not merged if they meet at a multiple of `boundary`; 0 merges all of them.
  explicit FreeRanges(std::uint64_t boundary = 0) : boundary_(boundary) {}

  // Makes [address, address + bytes) free, at first or when it is given back.
  void add(std::uint64_t address, std::uint64_t bytes);
  // Takes `bytes` at a multiple of `alignment`; nullopt if no hole is large enough.
  std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment);
  // Takes exactly this range; returns false if a part of it is not free.
  bool take_at(std::uint64_t address, std::uint64_t bytes);

 private:
  void insert(std::uint64_t address, std::uint64_t bytes);
  void erase(std::map<std::uint64_t, std::uint64_t>::iterator hole);

  bool joins_at(std::uint64_t address) const;

  std::uint64_t boundary_;
  std::map<std::uint64_t, std::uint64_t> bytes_by_address_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // pairs of bytes, address
};

}  // namespace gpumemtrace::cuda_abi::simulated
