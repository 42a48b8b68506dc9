// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace gpumemtrace::cuda_abi::simulated {

// Hands out parts of an address range, smallest fitting hole first and lowest address among equals,
// so that an address that was just given back is soon given out again, as the real driver does.
// Not thread-safe: the driver's lock covers it.
class FreeRanges {
 public:
  // Holes that meet at a multiple of `boundary` stay apart; 0 joins all that meet.
  explicit FreeRanges(std::uint64_t boundary = 0) : boundary_(boundary) {}

  // Gives [address, address + bytes) back, or in.
  void add(std::uint64_t address, std::uint64_t bytes);
  // Takes `bytes` at a multiple of `alignment`; nothing when no hole is large enough.
  std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment);
  // Takes exactly this range; false when a part of it is not free.
  bool take_at(std::uint64_t address, std::uint64_t bytes);

 private:
  void insert(std::uint64_t address, std::uint64_t bytes);
  void erase(std::map<std::uint64_t, std::uint64_t>::iterator hole);

  bool joins_at(std::uint64_t address) const;

  std::uint64_t boundary_;
  std::map<std::uint64_t, std::uint64_t> bytes_by_address_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // bytes, address
};

}  // namespace gpumemtrace::cuda_abi::simulated
