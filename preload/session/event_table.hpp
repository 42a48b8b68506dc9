// SPDX-License-Identifier: Apache-2.0
// The events that PyTorch's allocator created.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload {

// The events that PyTorch's allocator created, each with a bit that says whether a block waits for
// it. An event keeps its slot: the allocator has only as many events as blocks waited at the same
// time, and reuses them. For any thread.
class EventTable {
 public:
  void add(std::uint64_t event) noexcept {
    std::atomic<std::uint64_t>* slot = nullptr;
    std::uint64_t known = 0;
    do {
      slot = free_slot_for(event, known);
    } while (slot != nullptr && !slot->compare_exchange_strong(known, event));
  }
  // Removes the event if the table has it. Called for an event that other code created: the driver
  // may have given it the handle of an event that the allocator has destroyed.
  void remove(std::uint64_t event) noexcept {
    if (std::atomic<std::uint64_t>* const slot = find(event); slot != nullptr) slot->store(kGone);
  }
  [[nodiscard]] bool contains(std::uint64_t event) noexcept { return find(event) != nullptr; }
  // Sets whether a block waits for the event; true if that is a change. Changes nothing if another
  // thread changes the slot meanwhile: it may have removed the event.
  [[nodiscard]] bool set_waits(std::uint64_t event, bool waits) noexcept {
    std::atomic<std::uint64_t>* const slot = find(event);
    if (slot == nullptr) return false;
    std::uint64_t before = event | (waits ? 0 : kWaits);
    return slot->compare_exchange_strong(before, event | (waits ? kWaits : 0));
  }

 private:
  static constexpr std::size_t kSlots = 4096;
  static constexpr std::size_t kReach = 32;
  // A bit that is 0 in event handles: they are addresses.
  static constexpr std::uint64_t kWaits = 1;
  static constexpr std::uint64_t kGone = 2;

  [[nodiscard]] std::atomic<std::uint64_t>& slot_of(std::uint64_t event, std::size_t i) noexcept {
    return slots_[((event >> 4) * 0x9e3779b97f4a7c15 >> 52) + i];
  }
  [[nodiscard]] std::atomic<std::uint64_t>* find(std::uint64_t event) noexcept {
    for (std::size_t i = 0; i < kReach; ++i) {
      std::atomic<std::uint64_t>& slot = slot_of(event, i);
      const std::uint64_t known = slot.load();
      if ((known & ~kWaits) == event) return &slot;
      if (known == 0) return nullptr;
    }
    return nullptr;
  }
  // Returns the first free slot for the event, and sets `known` to the slot's content. nullptr if
  // the event has a slot already, or if none is free.
  [[nodiscard]] std::atomic<std::uint64_t>* free_slot_for(std::uint64_t event,
                                                          std::uint64_t& known) noexcept {
    std::atomic<std::uint64_t>* free = nullptr;
    for (std::size_t i = 0; i < kReach; ++i) {
      std::atomic<std::uint64_t>& slot = slot_of(event, i);
      const std::uint64_t content = slot.load();
      if ((content & ~kWaits) == event) return nullptr;
      if (free == nullptr && (content == 0 || content == kGone)) {
        free = &slot;
        known = content;
      }
      if (content == 0) break;
    }
    return free;
  }

  std::atomic<std::uint64_t> slots_[kSlots + kReach] = {};
};

}  // namespace gpumemtrace::preload
