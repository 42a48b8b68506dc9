// SPDX-License-Identifier: Apache-2.0
// Gives writers to threads, and orders each writer's chunks.
//
// A thread takes a writer with its first record and returns it when it ends; the next new thread
// continues it, in the same chunk. tests/exploration/ runs all of this in every order of steps.
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
  std::uint32_t session_id = 0;  // the value of control.session while threads record to this
  // A background thread empties the ring. Then threads wait for room, if `on_full` says so.
  std::atomic<bool> is_emptied = false;

  Writer* writers = nullptr;  // kMaxWriters, mapped
  std::atomic<std::uint32_t>* links = nullptr;
  std::atomic<std::uint32_t> count = 0;
  IndexStack idle;
};

// The pool of this process's session; set before control.session says that there is one.
extern constinit WriterPool* writer_pool [[gnu::visibility("hidden")]];

// The background thread's own. No other thread ever has it.
inline constexpr std::uint32_t kBackgroundWriter = 0;

// Index of a writer that no thread has; kNoIndex if none is left.
std::uint32_t take_writer(WriterPool& pool) noexcept;
// Gives the thread a writer and records whose records follow; false for kNoIndex.
[[nodiscard]] bool acquire_writer(WriterPool& pool, std::uint32_t index) noexcept;
// The thread ends: the next new thread gets its writer.
void return_writer(WriterPool& pool) noexcept;
// Takes the writers back from threads that ended without returning them: they were killed, or glibc
// stopped calling key destructors after PTHREAD_DESTRUCTOR_ITERATIONS. The background thread.
void reclaim_writers(WriterPool& pool, bool (*thread_is_gone)(std::uint32_t thread_id)) noexcept;

// Room for a record of `bytes` in a new chunk; nullptr and a counted drop if there is none.
// Slow path; keeps errno.
std::byte* reserve_in_new_chunk(std::size_t bytes, trace::DropClass drop_class) noexcept;

// A copy's record needs a chunk of the ring's reserve. True if the ring has room again; else the
// record is counted as dropped.
[[nodiscard]] bool reserve_is_over(trace::DropClass drop_class) noexcept;

// Writes a record with a tail for the calling thread, which must be attached; false if dropped.
[[nodiscard]] bool write_bytes(const void* record, std::size_t bytes, const char* tail,
                               std::size_t tail_bytes) noexcept;
// The same for a typed record; sets its kind and time.
template <class Record>
[[nodiscard]] bool write_record(Record& record, std::string_view tail) noexcept {
  record.record.kind = trace::kind_of<Record>();
  record.record.time = ticks();
  return write_bytes(&record, sizeof record, tail.data(), tail.size());
}

}  // namespace gpumemtrace::preload
