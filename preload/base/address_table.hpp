// SPDX-License-Identifier: Apache-2.0
// Hash table by address, in mapped memory, for what is live during a fold.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/base/mapped_array.hpp"

namespace gpumemtrace::preload {

// Open addressing with linear probing; an erased slot is closed by moving its followers back.
// - The key is the slot's member `address`; 0 marks an empty slot and cannot be stored.
// - Pointers to slots are valid until the next insert or erase.
template <class Slot>
class AddressTable {
 public:
  Slot* find(std::uint64_t address) noexcept {
    if (slots_.empty() || address == 0) return nullptr;
    for (std::size_t i = home_of(address);; i = (i + 1) & mask_) {
      if (slots_[i].address == address) return &slots_[i];
      if (slots_[i].address == 0) return nullptr;
    }
  }

  // The address must not be in the table. nullptr where there is no memory.
  Slot* insert(const Slot& slot) noexcept {
    if ((size_ + 1) * 5 > slots_.size() * 3 && !grow()) return nullptr;
    ++size_;
    return place(slot);
  }

  // `slot` is one of the table's.
  void erase(const Slot* slot) noexcept {
    --size_;
    std::size_t hole = static_cast<std::size_t>(slot - slots_.data());
    for (std::size_t i = (hole + 1) & mask_; slots_[i].address != 0; i = (i + 1) & mask_) {
      // The slot may move back unless its home lies behind the hole.
      if (((i - home_of(slots_[i].address)) & mask_) >= ((i - hole) & mask_)) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = Slot{};
  }

  template <class Visit>
  void for_each(Visit&& visit) noexcept {
    for (Slot& slot : slots_) {
      if (slot.address != 0) visit(slot);
    }
  }
  std::size_t size() const noexcept { return size_; }

 private:
  // Multiplication by 2^64 / golden ratio spreads aligned addresses over the high bits.
  std::size_t home_of(std::uint64_t address) const noexcept {
    return static_cast<std::size_t>((address * 0x9E37'79B9'7F4A'7C15u) >> shift_);
  }
  Slot* place(const Slot& slot) noexcept {
    std::size_t i = home_of(slot.address);
    while (slots_[i].address != 0) i = (i + 1) & mask_;
    slots_[i] = slot;
    return &slots_[i];
  }
  bool grow() noexcept {
    MappedArray<Slot> larger;
    const std::size_t count = slots_.empty() ? 64 : slots_.size() * 2;
    if (!larger.resize(count)) return false;
    slots_.swap(larger);
    mask_ = count - 1;
    shift_ = 64 - __builtin_ctzll(count);
    for (const Slot& slot : larger) {
      if (slot.address != 0) place(slot);
    }
    return true;
  }

  MappedArray<Slot> slots_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
  int shift_ = 0;
};

}  // namespace gpumemtrace::preload
