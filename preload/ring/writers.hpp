// SPDX-License-Identifier: Apache-2.0
// Gives writers to threads, and orders each writer's chunks.
//
// A writer is a stream of chunks. A thread takes a writer with its first record and returns the
// writer when the thread ends; the next new thread continues the stream, in the same chunk.
// tests/exploration/ runs this code in every order of the threads' steps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/base/clock.hpp"
#include "preload/base/config.hpp"
#include "preload/base/lock_free_stack.hpp"
#include "preload/ring/ring.hpp"
#include "preload/ring/thread_state.hpp"
#include "trace/ring_layout.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {

inline constexpr std::uint32_t kMaxWriters = 8192;

// The writers of a recording, and the ring that they write to.
struct WriterPool {
  explicit WriterPool(Ring& its_ring) noexcept : ring(its_ring) {}

  // Maps memory for all writers; writer 0 is the background thread's. False: no memory.
  [[nodiscard]] bool map_writers() noexcept;

  Ring& ring;
  OnFull on_full = OnFull::kDrop;
  std::uint32_t session_id = 0;  // the value of control.session while threads record to this pool
  // True while a background thread empties the ring. Only then may threads wait for room, which
  // they do if `on_full` is kBlock.
  std::atomic<bool> is_emptied = false;

  Writer* writers = nullptr;  // an array of kMaxWriters in mapped memory
  std::atomic<std::uint32_t>* links = nullptr;
  std::atomic<std::uint32_t> count = 0;
  IndexStack idle;
};

// The pool of this process's session; set before control.session says that a session exists.
extern constinit WriterPool* writer_pool [[gnu::visibility("hidden")]];

// Index of the background thread's writer, which no other thread ever has.
inline constexpr std::uint32_t kBackgroundWriter = 0;

// Index of a writer that no thread has; kNoIndex if none is left.
std::uint32_t take_writer(WriterPool& pool) noexcept;
// Gives the writer to the calling thread and records the thread's id and name; false for kNoIndex.
[[nodiscard]] bool acquire_writer(WriterPool& pool, std::uint32_t index) noexcept;
// Called when the calling thread ends: returns its writer, which the next new thread gets.
void return_writer(WriterPool& pool) noexcept;
// Takes the writers back from threads that ended without returning them: they were killed, or glibc
// stopped calling key destructors after PTHREAD_DESTRUCTOR_ITERATIONS. For the background thread.
void reclaim_writers(WriterPool& pool, bool (*thread_is_gone)(std::uint32_t thread_id)) noexcept;

// Room for a record of any length in a new chunk; nullptr if no chunk is free, which counts a drop.
// Slow path; keeps errno.
std::byte* reserve_in_new_chunk(trace::DropClass drop_class) noexcept;

// Called for a copy's record if the thread's chunk is reserved for other records. True if the ring
// has room again; else counts the record as dropped.
[[nodiscard]] bool ring_has_room_again(trace::DropClass drop_class) noexcept;

// Writes a record, with `tail` (usually a text) behind its fields, for the calling thread, which
// must have a writer; false if dropped.
[[nodiscard]] bool write_bytes(const void* record, std::size_t bytes, const char* tail,
                               std::size_t tail_bytes) noexcept;
// write_bytes() for a typed record, whose kind and time are set here.
template <class Record>
[[nodiscard]] bool write_record(Record& record, std::string_view tail) noexcept {
  record.record.kind = trace::kind_of<Record>();
  record.record.time = ticks();
  return write_bytes(&record, sizeof record, tail.data(), tail.size());
}

}  // namespace gpumemtrace::preload
