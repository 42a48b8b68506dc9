// SPDX-License-Identifier: Apache-2.0
// What a program sets of PyTorch's caching allocator while it runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/ring/call_guard.hpp"

namespace gpumemtrace::preload {

inline constexpr std::size_t kMaxTorchDevices = 32;

// Reserved bytes of each device when its memory fraction was last asked for.
extern constinit std::atomic<std::uint64_t> reserved_when_asked[kMaxTorchDevices];

// Asks PyTorch how much of the device the process may take, and records it where it has changed.
// Inside the allocator's lock: what is called there reads a number and takes no lock.
void record_memory_fraction(const CallGuard& guard, std::int8_t device) noexcept;

// The fraction matters where the allocator takes memory from the driver, or gives it back.
[[gnu::always_inline]] inline void look_at_memory_fraction(const CallGuard& guard,
                                                           std::int8_t device,
                                                           std::uint64_t reserved_bytes) noexcept {
  const auto index = static_cast<std::uint8_t>(device);
  if (index >= kMaxTorchDevices) return;
  // Relaxed: the allocator's lock orders the calls of one device.
  std::atomic<std::uint64_t>& asked = reserved_when_asked[index];
  if (asked.load(std::memory_order_relaxed) == reserved_bytes) [[likely]]
    return;
  asked.store(reserved_bytes, std::memory_order_relaxed);
  record_memory_fraction(guard, device);
}

}  // namespace gpumemtrace::preload
