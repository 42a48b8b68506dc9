// SPDX-License-Identifier: Apache-2.0
// From the ring to the trace file: selects the bytes of each chunk to write, and frees chunks.
//
// - All functions are for the background thread.
// - `append` is called as bool(const Span&) and writes the span to the file. It returns false if it
//   could not write the span, which then stays in its chunk.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "preload/ring/ring.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {

// Records of one writer: bytes [begin, begin + records.size()) of its chunk's content.
struct Span {
  std::uint32_t writer = 0;
  std::uint32_t sequence = 0;
  std::uint32_t begin = 0;
  std::span<const std::byte> records;
};

inline const std::byte* content_of(const trace::ChunkHeader& chunk) noexcept {
  return reinterpret_cast<const std::byte*>(&chunk + 1);
}

// Returns the end of the first part of [begin, end) of a chunk's content in which all calls have
// returned.
inline std::uint32_t completed_bytes(const trace::ChunkHeader& chunk, std::uint32_t begin,
                                     std::uint32_t end) noexcept {
  const std::byte* const content = content_of(chunk);
  std::uint32_t offset = begin;
  while (offset < end) {
    const auto* record = reinterpret_cast<const trace::RecordHeader*>(content + offset);
    if (trace::is_call(record->kind)) {
      auto* call = const_cast<trace::CallHeader*>(
          reinterpret_cast<const trace::CallHeader*>(content + offset));
      // Acquire: pairs with Slot::complete(); a call that has an end time has result and outputs.
      // mutant: end_without_acquire
      if (std::atomic_ref(call->end).load(std::memory_order_acquire) == 0) break;
    }
    offset += static_cast<std::uint32_t>(record->words * trace::kWordBytes);
  }
  return offset;
}

template <class Append>
[[nodiscard]] bool pack(trace::ChunkHeader& chunk, std::uint32_t end, Append&& append) noexcept {
  if (end <= chunk.packed) return true;
  const Span span{chunk.writer, chunk.sequence, chunk.packed,
                  std::span(content_of(chunk) + chunk.packed, end - chunk.packed)};
  if (!append(span)) return false;
  chunk.packed = end;  // mutant: packed_not_remembered
  return true;
}

// Writes sealed chunks to the file, then returns them to the ring.
template <class Append>
void pack_sealed(Ring& ring, Append&& append) noexcept {
  std::uint32_t index = ring.take_sealed();
  while (index != kNoIndex) {
    const std::uint32_t next = ring.next_sealed(index);
    trace::ChunkHeader& chunk = *ring.chunk(index);
    // Acquire: pairs with commit().
    // mutant: recycle_before_packed
    if (pack(chunk, chunk.committed.load(std::memory_order_acquire), append)) ring.recycle(&chunk);
    index = next;  // mutant: next_after_recycle
  }
}

// Writes the committed and complete part of chunks that threads are still writing.
template <class Append>
void pack_active(Ring& ring, Append&& append) noexcept {
  ring.for_each_chunk([&](trace::ChunkHeader& chunk) noexcept {
    // Acquire: pairs with reserve_in_new_chunk().
    if (chunk.state.load(std::memory_order_acquire) != trace::ChunkState::kActive) return;
    // mutant: committed_without_acquire
    const std::uint32_t committed =
        chunk.committed.load(std::memory_order_acquire);  // pairs with commit()
    // Records that cannot be written stay in the chunk.
    // mutant: open_calls_packed
    static_cast<void>(pack(chunk, completed_bytes(chunk, chunk.packed, committed), append));
  });
}

// The least time of all chunks' first records that are committed and not yet packed; `ticks` if
// none is less.
inline std::uint64_t first_unpacked_ticks(const Ring& ring, std::uint64_t ticks) noexcept {
  ring.for_each_chunk([&](const trace::ChunkHeader& chunk) noexcept {
    // Acquire: pairs with reserve_in_new_chunk().
    if (chunk.state.load(std::memory_order_acquire) == trace::ChunkState::kFree) return;
    const std::uint32_t committed =
        chunk.committed.load(std::memory_order_acquire);  // pairs with commit()
    if (committed <= chunk.packed) return;
    const auto* record =
        reinterpret_cast<const trace::RecordHeader*>(content_of(chunk) + chunk.packed);
    if (record->time < ticks) ticks = record->time;
  });
  return ticks;
}

}  // namespace gpumemtrace::preload
