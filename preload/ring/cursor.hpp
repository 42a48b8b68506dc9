// SPDX-License-Identifier: Apache-2.0
// Prepares and publishes a thread's next record: fetches its chunk's lines ahead of the cursor, and
// commits the bytes behind it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/ring/thread_state.hpp"

namespace gpumemtrace::preload {

inline constexpr std::size_t kCacheLineBytes = 64;
// The most that a thread writes while a line comes from another core's cache (up to 1 us).
inline constexpr std::size_t kFetchAheadBytes = 2048;

// Asks for the line at `address` with the right to store into it; stores nothing.
inline void fetch_for_writing(std::uintptr_t address) noexcept {
  const auto* line = reinterpret_cast<const std::byte*>(address);
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*line));  // a no-op on processors without it
#else
  __builtin_prefetch(line, 1);
#endif
}

// The background thread has read the chunk's lines when it packed them, so they lie in another
// core's cache, and each store would wait for its line. Asks for those lines that the record
// kFetchAheadBytes further on will be the first to touch: asking twice for a line that is on its
// way costs more than it gains. Never past `end`: the bytes after it are another thread's.
inline void fetch_ahead(const std::byte* cursor, const std::byte* end,
                        std::size_t record_bytes) noexcept {
  if (static_cast<std::size_t>(end - cursor) < kFetchAheadBytes + record_bytes) return;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(cursor) + kFetchAheadBytes;
  std::uintptr_t line = (begin + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
  for (; line < begin + record_bytes; line += kCacheLineBytes) fetch_for_writing(line);
}

// Makes `bytes` more of the chunk visible to readers of the file.
inline void commit(std::size_t bytes) noexcept {
  ThreadState& state = thread_state;
  // A signal handler may jump out of here: bytes behind the cursor must be filled in.
  std::atomic_signal_fence(std::memory_order_release);
  state.cursor += bytes;
  const auto* content = reinterpret_cast<const std::byte*>(state.chunk + 1);
  // Release: pairs with the acquire of the background thread's last pass and, for a killed process,
  // with the reader of the file: a committed slot is filled in.
  state.chunk->committed.store(static_cast<std::uint32_t>(state.cursor - content),
                               std::memory_order_release);
}

}  // namespace gpumemtrace::preload
