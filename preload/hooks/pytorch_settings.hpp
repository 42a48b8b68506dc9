// SPDX-License-Identifier: Apache-2.0
// Records the settings of PyTorch's caching allocator that a program changes while it runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/ring/call_guard.hpp"

namespace gpumemtrace::preload {

inline constexpr std::size_t kMaxTorchDevices = 32;

// Reserved bytes of each device when its memory fraction was last asked for.
extern constinit std::atomic<std::uint64_t> reserved_when_asked[kMaxTorchDevices];

// Asks PyTorch for the fraction of the device that the process may take, and records it if it has
// changed. Inside the allocator's lock: the called function reads a number and takes no lock.
void record_memory_fraction(const CallGuard& guard, std::int8_t device) noexcept;

// The fraction matters when the allocator takes memory from the driver or returns it.
[[gnu::always_inline]] inline void update_memory_fraction(const CallGuard& guard,
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
