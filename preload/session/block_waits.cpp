// SPDX-License-Identifier: Apache-2.0
#include "preload/session/block_waits.hpp"

#include "preload/loader/torch_libraries.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/event_table.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload::block_waits {

constinit thread_local Recorded recorded [[gnu::tls_model("initial-exec")]] = {};

namespace {

constinit EventTable allocator_events;

// Records that the block at `address` waits for the event, or, with address 0, that the event is
// complete.
void write_wait(std::uint64_t address, std::uint64_t event) noexcept {
  const CallGuard guard;
  if (!recording(/*may_start=*/false)) return;
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
