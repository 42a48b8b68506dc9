// SPDX-License-Identifier: Apache-2.0
// The ring: chunks of shared memory in a file that outlives the process.
//
//   file thread                    traced thread                 background thread
//   grow(): free, touched  ----->  take(): active  --seal()-->   packs it, recycle(): free again
//
// - take() and seal() are called by traced threads: one atomic exchange each, no lock, no system
//   call while the ring has free chunks. A thread that finds none has the file thread grow the
//   ring, up to the capacity; after that take() returns nullptr and the caller counts a drop.
// - The other functions that change the ring are for the background thread, or for the one thread
//   that starts the recording; grow_as_wanted() is for the file thread.
// - The file grows by extents of kMaxChunkBytes, each cut into chunks of one size. An extent is
//   allocated on disk and touched before a thread gets a chunk of it: a full disk is an error of
//   grow(), never a SIGBUS in a traced thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/base/lock_free_stack.hpp"
#include "preload/base/own_file.hpp"
#include "trace/ring_layout.hpp"

namespace gpumemtrace::preload {

class Ring {
 public:
  static constexpr std::uint32_t kSizeClasses = 7;  // 4 KiB, 8 KiB, ... 256 KiB

  // Makes the file and maps it. Returns 0, or an errno value if there is no file.
  [[nodiscard]] int create(const char* path, const trace::TraceId& id,
                           std::uint64_t capacity) noexcept;
  // Removes the file that create() has made, before anyone has taken a chunk.
  void discard(const char* path) noexcept;

  // A chunk of the wanted size class, or of another class if that one has no free chunk.
  // `important` calls may use the last eighth of the capacity. nullptr: the ring is full.
  trace::ChunkHeader* take(std::uint32_t size_class, bool important) noexcept;
  void seal(trace::ChunkHeader* chunk) noexcept;

  // take_sealed() takes all sealed chunks and returns the index of the newest; next_sealed() gives
  // the index of the chunk that was sealed before `index`, kNoIndex after the oldest.
  std::uint32_t take_sealed() noexcept { return sealed_.take_all(); }
  std::uint32_t next_sealed(std::uint32_t index) const noexcept {
    return IndexInbox::next(index, links_);
  }
  trace::ChunkHeader* chunk(std::uint32_t index) const noexcept;
  void recycle(trace::ChunkHeader* chunk) noexcept;

  // Keeps a reserve of free chunks of every size; false if the file cannot grow.
  [[nodiscard]] bool replenish() noexcept;
  // True if at least half of the size class's reserve of free chunks is in use: the background
  // thread must not sleep long. A hint, for any thread.
  [[nodiscard]] bool is_reserve_low(std::uint32_t size_class) const noexcept;
  // True if is_reserve_low() holds for a size class, and a round of the background thread would
  // give that class free chunks.
  [[nodiscard]] bool needs_round() const noexcept;
  // Grows the ring by an extent for each size class that threads wait for. For the file thread.
  void grow_as_wanted() noexcept;
  // The reason why the file cannot grow any more: an errno value, 0 while it can.
  [[nodiscard]] int growth_error() const noexcept {
    return growth_error_.load(std::memory_order_relaxed);  // a hint that orders no other data
  }

  // Called when the process ends: returns the disk space of free chunks. Chunks of the smallest
  // size stay usable for later records; the others are taken out of use.
  void release_free_chunks() noexcept;

  trace::RingHeader& header() const noexcept { return *header_; }
  std::uint64_t capacity() const noexcept { return capacity_; }
  // True if the ring cannot grow any more and less than an eighth of its capacity is free: that
  // rest is for important records.
  [[nodiscard]] bool is_short() const noexcept;
  // Visits all chunks, whatever their state, in the order of the file.
  template <class Visitor>
  void for_each_chunk(Visitor&& visit) const noexcept {
    // Acquire: pairs with grow(), which has written the headers of all chunks before this offset.
    // mutant: growth_without_acquire
    const std::uint64_t end = header_->used_bytes.load(std::memory_order_acquire);
    for (std::uint64_t offset = trace::kRingHeaderBytes; offset < end;) {
      auto* chunk = reinterpret_cast<trace::ChunkHeader*>(base_ + offset);
      if (chunk->bytes < trace::kMinChunkBytes) return;  // another process wrote to the file
      visit(*chunk);
      offset += chunk->bytes;
    }
  }

 private:
  [[nodiscard]] int map_file(const trace::TraceId& id) noexcept;
  // Adds an extent, cut into chunks of this size class. Called on the file thread.
  [[nodiscard]] bool grow(std::uint32_t size_class) noexcept;
  [[nodiscard]] bool has_reserve() const noexcept;
  [[nodiscard]] bool fill_reserve() noexcept;
  [[nodiscard]] bool is_at_capacity() const noexcept;
  std::uint32_t wait_for_growth(std::uint32_t size_class) noexcept;
  std::uint32_t index_of(const trace::ChunkHeader* chunk) const noexcept;

  std::byte* base_ = nullptr;
  trace::RingHeader* header_ = nullptr;
  std::atomic<std::uint32_t>* links_ = nullptr;
  OwnFile file_;
  std::uint64_t capacity_ = 0;
  std::atomic<int> growth_error_ = 0;
  std::atomic<bool> wanted_[kSizeClasses] = {};  // threads wait for chunks of this size
  // The value of `growths_` when a thread gave up waiting: threads wait again once `growths_`
  // changes.
  std::atomic<std::uint32_t> given_up_ = ~std::uint32_t{0};
  std::atomic<std::uint32_t> growths_ = 0;  // raised to end the waits of threads for chunks
  IndexStack free_[kSizeClasses];
  IndexInbox sealed_;
};

}  // namespace gpumemtrace::preload
