// SPDX-License-Identifier: Apache-2.0
// A hash map for code that every recorded call runs: 64-bit keys, values stored in place, no
// allocation per element.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpumemtrace::ledger {

// Open addressing with linear probing; an erased slot is closed by moving its followers back, so
// there are no tombstones and a map that lives long stays as fast as a new one.
// - The key is the member `kKey` of the slot; key 0 marks an empty slot and cannot be stored.
// - Array holds the slots: MappedArray, or an array on the heap that throws if memory runs out.
// - Pointers to slots are valid until the next add or erase.
// - A processor cannot predict the end of a search, so a map of up to kSparseSlots slots is kept so
//   empty that nearly all searches end at the first slot; in a larger map, reading the slots from
//   memory takes most of the time anyway.
// - for_each visits in an order that depends only on the history of the map.
template <class Slot, std::uint64_t Slot::*kKey, template <class> class Array,
          std::size_t kSparseSlots = 0>
class FlatMap {
  static_assert(std::is_trivially_copyable_v<Slot>);

 public:
  [[nodiscard]] Slot* find(std::uint64_t key) {
    if (slots_.empty()) return nullptr;
    for (std::size_t i = home_of(key);; i = (i + 1) & mask_) {
      if (slots_[i].*kKey == key) return key == 0 ? nullptr : &slots_[i];
      if (slots_[i].*kKey == 0) return nullptr;
    }
  }
  [[nodiscard]] const Slot* find(std::uint64_t key) const {
    return const_cast<FlatMap*>(this)->find(key);
  }

  // Adds a slot and sets its key, which must not be in the map; nullptr without memory. The caller
  // fills the other fields in place. To copy a struct in instead would be slow: it would be read in
  // larger pieces than it was just written in, for which a processor waits.
  [[nodiscard]] Slot* add(std::uint64_t key) {
    assert(key != 0 && find(key) == nullptr);
    if (size_ == room_ && !grow()) return nullptr;
    ++size_;
    Slot& slot = slots_[empty_slot_for(key)];
    slot.*kKey = key;
    return &slot;
  }
  [[nodiscard]] Slot* insert(const Slot& slot) {
    Slot* const added = add(slot.*kKey);
    if (added != nullptr) *added = slot;
    return added;
  }

  // Removes the key. True if it was in the map; `erased` then holds its slot.
  [[nodiscard]] bool erase(std::uint64_t key, Slot& erased) {
    Slot* slot = find(key);
    if (slot == nullptr) return false;
    erased = *slot;
    erase(slot);
    return true;
  }
  // Removes a slot, which must be in the map.
  void erase(const Slot* slot) {
    close(static_cast<std::size_t>(slot - slots_.data()));
    --size_;
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.*kKey != 0) visit(slot);
    }
  }

 private:
  // Multiplication by 2^64 / golden ratio spreads aligned addresses over the high bits.
  [[nodiscard]] std::size_t home_of(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E37'79B9'7F4A'7C15u) >> shift_);
  }

  [[nodiscard]] std::size_t empty_slot_for(std::uint64_t key) const {
    std::size_t i = home_of(key);
    while (slots_[i].*kKey != 0) i = (i + 1) & mask_;
    return i;
  }

  void close(std::size_t hole) {
    for (std::size_t i = (hole + 1) & mask_; slots_[i].*kKey != 0; i = (i + 1) & mask_) {
      const std::size_t home = home_of(slots_[i].*kKey);
      // An element may move back into the hole unless its home, the first slot to probe, lies
      // behind the hole.
      if (((i - home) & mask_) >= ((i - hole) & mask_)) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = Slot{};
  }

  [[nodiscard]] bool grow() {
    Array<Slot> larger;
    const std::size_t count = slots_.empty() ? 64 : slots_.size() * 2;
    if (!larger.resize(count)) return false;
    slots_.swap(larger);
    mask_ = count - 1;
    room_ = count <= kSparseSlots ? count / 8 : count / 5 * 3;
    shift_ = 64 - __builtin_ctzll(count);
    for (const Slot& slot : larger) {
      if (slot.*kKey != 0) slots_[empty_slot_for(slot.*kKey)] = slot;
    }
    return true;
  }

  Array<Slot> slots_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
  std::size_t room_ = 0;  // number of slots that the map fills before it grows
  int shift_ = 0;
};

}  // namespace gpumemtrace::ledger
