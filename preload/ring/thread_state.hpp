// SPDX-License-Identifier: Apache-2.0
// A thread's state for recording: the session it belongs to, the place of its next record, and its
// current context; and how that record is prepared and published. Static thread-local storage:
// reaching it costs one register-relative load, and it exists from the thread's first instruction
// to its last.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trace/records.hpp"
#include "trace/ring_layout.hpp"

namespace gpumemtrace::preload {

// A stream of chunks. It belongs to one thread at a time; when that thread ends, the next new
// thread continues it, so that a thousand short threads need no more memory than one.
struct Writer {
  std::uint32_t id = 0;
  std::uint32_t next_sequence = 0;           // number of the chunk after the last sealed chunk
  std::uint32_t size_class = 0;              // size class of the next chunk to take
  std::atomic<std::uint32_t> thread_id = 0;  // 0 while no thread has this writer
  trace::ChunkHeader* taken = nullptr;       // a chunk taken from the ring and not yet begun
  trace::ChunkHeader* chunk = nullptr;
  std::byte* cursor = nullptr;
  std::byte* end = nullptr;
  // `gap`: the number of records dropped since the last chunk was full, by DropClass; `gap_since`:
  // the time of the first of them, in ticks.
  std::uint64_t gap_since = 0;
  std::uint64_t gap[static_cast<std::size_t>(trace::DropClass::kCount)] = {};
};

inline constexpr std::uint32_t kContextStackDepth = 14;  // fills the state's second cache line
inline constexpr std::uint32_t kNoSession =
    ~std::uint32_t{0};  // control.session never has this value

// The fields that every event needs lie in two adjacent cache lines, which are fetched together.
struct alignas(64) ThreadState {
  std::uint32_t session =
      kNoSession;  // the session that `writer` belongs to; see preload/ring/control.hpp
  std::uintptr_t hook_frame = 0;  // frame pointer of the outermost hook; 0: none
  Writer* writer = nullptr;
  std::byte* cursor = nullptr;  // the writer's cursor, while this thread has the writer
  std::byte* end = nullptr;
  trace::ChunkHeader* chunk = nullptr;
  bool chunk_is_reserved = false;  // `chunk` was taken while the ring was short: not for copies
  std::uint32_t writer_id = 0;     // the writer's id, while this thread has the writer
  // CUDA contexts that wrapped calls made current on this thread.
  trace::ContextId context = trace::ContextId::kNone;
  std::uint32_t context_depth = 0;
  std::uint64_t last_without_python = 0;  // time in ticks(); see preload/stacks/waiting_watch.hpp
  std::uint64_t last_waiting_sample = 0;  // time in ticks(); see preload/stacks/waiting_watch.hpp
  trace::ContextId context_stack[kContextStackDepth] = {};
};

extern constinit thread_local ThreadState thread_state [[gnu::tls_model("initial-exec")]];

inline constexpr std::size_t kCacheLineBytes = 64;
// The most bytes that a thread writes while a cache line comes from another core (up to 1 us).
inline constexpr std::size_t kFetchAheadBytes = 2048;

// Prefetches the cache line at `address` for writing; stores nothing.
inline void fetch_for_writing(std::uintptr_t address) noexcept {
  const auto* line = reinterpret_cast<const std::byte*>(address);
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*line));  // no-op on processors without prefetchw
#else
  __builtin_prefetch(line, 1);
#endif
}

// Prefetches the lines of the chunk that will be needed kFetchAheadBytes further on. The background
// thread has read these lines when it packed the chunk, so they lie in another core's cache, and
// each store would wait for its line. No line is asked for by two records: asking twice for a line
// that is on its way costs more than it gains. Never goes past `end`: the bytes after it are
// another thread's.
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
  // A signal handler may jump out of here, so the record is stored before the cursor moves past it.
  std::atomic_signal_fence(std::memory_order_release);
  state.cursor += bytes;
  const auto* content = reinterpret_cast<const std::byte*>(state.chunk + 1);
  // Release: pairs with the acquire of the background thread's last pass and, for a killed process,
  // with the reader of the file: a committed slot is filled in.
  state.chunk->committed.store(static_cast<std::uint32_t>(state.cursor - content),
                               std::memory_order_release);  // mutant: commit_without_release
}

}  // namespace gpumemtrace::preload
