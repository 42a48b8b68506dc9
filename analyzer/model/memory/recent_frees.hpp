// SPDX-License-Identifier: Apache-2.0
// Where memory was freed last, by its address: what a second free of it is explained by.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "analyzer/model/accounts/accounts.hpp"

namespace gpumemtrace::analyzer {

// Of frees that share a slot the last one counts, so an older one may be forgotten.
class RecentFrees {
 public:
  struct Entry {
    std::uint64_t address = 0;
    std::uint32_t group = 0;  // who had allocated it
    CallSite freed_at;
  };

  void add(const Entry& entry) { entries_[slot_of(entry.address)] = entry; }
  // nullptr where the address is not among them.
  [[nodiscard]] const Entry* find(std::uint64_t address) const {
    const Entry& entry = entries_[slot_of(address)];
    return address != 0 && entry.address == address ? &entry : nullptr;
  }

 private:
  static constexpr std::size_t kSlotBits = 10;

  static std::size_t slot_of(std::uint64_t address) {
    return static_cast<std::size_t>((address * 0x9E37'79B9'7F4A'7C15u) >> (64 - kSlotBits));
  }

  std::array<Entry, std::size_t{1} << kSlotBits> entries_{};
};

}  // namespace gpumemtrace::analyzer
