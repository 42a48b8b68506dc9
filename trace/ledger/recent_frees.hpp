// SPDX-License-Identifier: Apache-2.0
// The last free of recently freed addresses, which explains a second free of the same address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/ledger/call_site.hpp"
#include "trace/ledger/mapped_array.hpp"

namespace gpumemtrace::ledger {

// A hash table of frees without chains: a free replaces another one in its slot, so older frees may
// be forgotten. Without memory for the table all are forgotten.
class RecentFrees {
 public:
  struct Entry {
    std::uint64_t address = 0;
    std::uint32_t group = 0;  // the group of allocations to which the freed one belonged
    CallSite freed_at;
  };

  RecentFrees() noexcept {
    [[maybe_unused]] const bool has_memory = entries_.resize(std::size_t{1} << kSlotBits);
  }

  void add(const Entry& entry) noexcept {
    if (!entries_.empty()) entries_[slot_of(entry.address)] = entry;
  }
  // The last free of the address; nullptr if it is not in the table.
  [[nodiscard]] const Entry* find(std::uint64_t address) const noexcept {
    if (entries_.empty() || address == 0) return nullptr;
    const Entry& entry = entries_[slot_of(address)];
    return entry.address == address ? &entry : nullptr;
  }
  // The slots of the table, in no order; those whose address is 0 are empty.
  [[nodiscard]] const MappedArray<Entry>& entries() const noexcept { return entries_; }

 private:
  static constexpr std::size_t kSlotBits = 10;

  static std::size_t slot_of(std::uint64_t address) noexcept {
    return static_cast<std::size_t>((address * 0x9E37'79B9'7F4A'7C15u) >> (64 - kSlotBits));
  }

  MappedArray<Entry> entries_;
};

}  // namespace gpumemtrace::ledger
