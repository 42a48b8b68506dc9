// SPDX-License-Identifier: Apache-2.0
#include "preload/session/block_waits.hpp"

#include <atomic>
#include <cstddef>

#include "preload/loader/torch_libraries.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload::block_waits {

constinit thread_local Recorded recorded [[gnu::tls_model("initial-exec")]] = {};

namespace {

// The events that PyTorch's allocator created, each with a bit that says whether a block waits for
// it. An event keeps its slot: the allocator has only as many events as blocks waited at the same
// time, and reuses them.
class EventTable {
 public:
  void add(std::uint64_t event) noexcept {
    for (std::size_t i = 0; i < kReach; ++i) {
      std::atomic<std::uint64_t>& slot = slot_of(event, i);
      std::uint64_t known = slot.load();
      if ((known & ~kWaits) == event) return;
      if (known <= kGone && slot.compare_exchange_strong(known, event)) return;
    }
  }
  // Called for an event that other code created: the driver may have given it the handle of an
  // event that the allocator has destroyed.
  void remove(std::uint64_t event) noexcept {
    if (std::atomic<std::uint64_t>* const slot = find(event); slot != nullptr) slot->store(kGone);
  }
  [[nodiscard]] bool contains(std::uint64_t event) noexcept { return find(event) != nullptr; }
  // Sets whether a block waits for the event; true if that is a change.
  [[nodiscard]] bool set_waits(std::uint64_t event, bool waits) noexcept {
    std::atomic<std::uint64_t>* const slot = find(event);
    if (slot == nullptr) return false;
    return slot->exchange(event | (waits ? kWaits : 0)) != (event | (waits ? kWaits : 0));
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

  std::atomic<std::uint64_t> slots_[kSlots + kReach] = {};
};

constinit EventTable allocator_events;

// Records that the block at `address` waits for the event, or, with address 0, that the event is
// complete.
void write_wait(std::uint64_t address, std::uint64_t event) noexcept {
  const CallGuard guard;
  if (!recording(false)) return;
  (void)write_event<trace::BlockWait>(guard, [&](trace::BlockWait& wait) {
    wait.address = address;
    wait.event = event;
  });
}

}  // namespace

void event_created(std::uint64_t event) noexcept {
  const void* const allocator = find_torch_allocator();
  if (allocator != nullptr && is_called_from_library_of(allocator)) {
    allocator_events.add(event);
  } else {
    allocator_events.remove(event);
  }
}

void event_recorded(std::uint64_t event) noexcept {
  if (!allocator_events.contains(event)) return;
  Recorded& own = recorded;
  if (own.count < Recorded::kMost) own.events[own.count] = event;
  ++own.count;
}

void event_was_over(std::uint64_t event) noexcept {
  if (allocator_events.set_waits(event, false)) write_wait(0, event);
}

// Events beyond Recorded::kMost are not written; a replay of the allocator then finds a difference.
[[gnu::noinline, gnu::cold]] void record_waits(std::uint64_t address) noexcept {
  Recorded& own = recorded;
  for (std::uint32_t i = 0; i < own.count && i < Recorded::kMost; ++i) {
    write_wait(address, own.events[i]);
    (void)allocator_events.set_waits(own.events[i], true);
  }
  own.count = 0;
}

}  // namespace gpumemtrace::preload::block_waits
