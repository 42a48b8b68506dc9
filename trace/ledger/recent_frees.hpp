// SPDX-License-Identifier: Apache-2.0
// The last frees by address, which explain a second free of the same address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/ledger/call_site.hpp"
#include "trace/ledger/mapped_array.hpp"

namespace gpumemtrace::ledger {

// A free replaces the one before it in its slot, so an older free may be forgotten. Without memory
// for the table all are.
class RecentFrees {
 public:
  struct Entry {
    std::uint64_t address = 0;
    std::uint32_t group = 0;  // who had allocated it
    CallSite freed_at;
  };

  RecentFrees() noexcept {
    [[maybe_unused]] const bool has_memory = entries_.resize(std::size_t{1} << kSlotBits);
  }

  void add(const Entry& entry) noexcept {
    if (!entries_.empty()) entries_[slot_of(entry.address)] = entry;
  }
  // nullptr if the address is not among them.
  [[nodiscard]] const Entry* find(std::uint64_t address) const noexcept {
    if (entries_.empty() || address == 0) return nullptr;
    const Entry& entry = entries_[slot_of(address)];
    return entry.address == address ? &entry : nullptr;
  }
  // In no order; those without an address are empty.
  [[nodiscard]] const MappedArray<Entry>& entries() const noexcept { return entries_; }

 private:
  static constexpr std::size_t kSlotBits = 10;

  static std::size_t slot_of(std::uint64_t address) noexcept {
    return static_cast<std::size_t>((address * 0x9E37'79B9'7F4A'7C15u) >> (64 - kSlotBits));
  }

  MappedArray<Entry> entries_;
};

}  // namespace gpumemtrace::ledger
