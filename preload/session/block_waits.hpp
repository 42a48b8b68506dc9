// SPDX-License-Identifier: Apache-2.0
// Blocks that PyTorch takes back while other streams may still use them (record_stream). PyTorch's
// allocator records an event on each of these streams before it reports that it has taken the block
// back, and queries the events at every later allocation until they are complete: only then the
// block is free.
//
// Any thread; no lock, no allocation.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload::block_waits {

// Called after the driver has created or recorded an event, or has reported that it is complete.
// Events that PyTorch's allocator did not create are ignored.
void event_created(std::uint64_t event) noexcept;
void event_recorded(std::uint64_t event) noexcept;
void event_was_over(std::uint64_t event) noexcept;

// The events that the calling thread recorded since PyTorch's allocator last reported a block.
struct Recorded {
  static constexpr std::uint32_t kMost = 7;
  std::uint32_t count = 0;
  std::uint64_t events[kMost] = {};
};
extern constinit thread_local Recorded recorded [[gnu::tls_model("initial-exec")]];

// Writes to the trace which events the block at this address waits for. Called before the block is
// recorded as taken back.
void record_waits(std::uint64_t address) noexcept;
[[gnu::always_inline]] inline void block_taken_back(const void* address) noexcept {
  if (recorded.count != 0) [[unlikely]]
    record_waits(reinterpret_cast<std::uintptr_t>(address));
}
[[gnu::always_inline]] inline void block_handed_out() noexcept { recorded.count = 0; }

}  // namespace gpumemtrace::preload::block_waits
