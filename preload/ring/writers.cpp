// SPDX-License-Identifier: Apache-2.0
#include "preload/ring/writers.hpp"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>
#include <string_view>

#include "preload/base/clock.hpp"
#include "preload/base/map_zeros.hpp"
#include "preload/base/thread_guards.hpp"
#include "preload/base/wait.hpp"
#include "preload/ring/control.hpp"
#include "preload/ring/thread_state.hpp"
#include "trace/columns.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

constinit WriterPool* writer_pool = nullptr;

bool WriterPool::map_writers() noexcept {
  writers = static_cast<Writer*>(map_zeros(sizeof(Writer) * kMaxWriters));
  links = static_cast<std::atomic<std::uint32_t>*>(
      map_zeros(sizeof(std::atomic<std::uint32_t>) * kMaxWriters));
  if (writers == nullptr || links == nullptr) return false;
  count.store(1);
  return true;
}

namespace {

std::uint32_t current_thread_id() noexcept {
  return static_cast<std::uint32_t>(syscall(SYS_gettid));
}

void write_thread_record(std::uint32_t thread_id, std::string_view name) noexcept {
  trace::Thread record;
  record.thread_id = thread_id;
  record.pthread_self = static_cast<std::uint64_t>(pthread_self());
  (void)write_record(record, name);
}

// The thread's present name, in the caller's buffer.
std::string_view thread_name(char (&name)[16]) noexcept {
  if (prctl(PR_GET_NAME, name, 0, 0, 0) != 0) return {};
  return {name, strnlen(name, sizeof name)};
}

void count_drop(WriterPool& pool, trace::DropClass drop_class) noexcept {
  const auto index = static_cast<std::size_t>(drop_class);
  Writer& writer = *thread_state.writer;
  trace::RingHeader& header = pool.ring.header();
  trace::DropCounts& line = header.dropped_by_writers[writer.id % header.kDropLines];
  // mutant: drop_not_counted
  line.counts[index].fetch_add(1, std::memory_order_relaxed);  // relaxed: a counter
  if (writer.gap_since == 0) writer.gap_since = ticks();
  ++writer.gap[index];
}

// Records, at the start of the first chunk after a gap, the number of missing records.
void write_gap() noexcept {
  Writer& writer = *thread_state.writer;
  if (writer.gap_since == 0) return;
  trace::Gap record;
  record.record.kind = trace::RecordKind::kGap;
  record.record.words = sizeof record / trace::kWordBytes;
  record.record.time = ticks();
  record.since = writer.gap_since;
  std::uint64_t* counts[] = {&record.allocations, &record.frees, &record.copies, &record.blocks,
                             &record.others};
  for (std::size_t i = 0; i < std::size(counts); ++i) {
    *counts[i] = writer.gap[i];
    writer.gap[i] = 0;
  }
  writer.gap_since = 0;
  memcpy(thread_state.cursor, &record, sizeof record);
  commit(sizeof record);
}

// Takes a chunk from the ring; with OnFull::kBlock, waits while the ring is full. `has_sealed`: the
// calling thread has just sealed its last chunk, which the background thread can free.
trace::ChunkHeader* take_chunk(WriterPool& pool, std::uint32_t size_class, bool important,
                               bool has_sealed) noexcept {
  trace::ChunkHeader* chunk = pool.ring.take(size_class, important);
  // The background thread is not woken for each record that a full ring drops.
  if ((has_sealed || chunk != nullptr) && pool.ring.is_reserve_low(size_class)) {
    background_wake.wake_if_asleep();  // mutant: reserve_not_watched
  }
  while (chunk == nullptr && pool.on_full == OnFull::kBlock &&
         control.session.load() == pool.session_id && pool.is_emptied.load() &&
         thread_state.writer->id != 0) {
    sleep_microseconds(200);
    chunk = pool.ring.take(size_class, important);
  }
  return chunk;
}

// The sequence number of the writer's next chunk. A chunk that was left before a record was
// committed in it uses up no number, so it is no gap in the writer's stream.
std::uint32_t sequence_after(const trace::ChunkHeader& chunk) noexcept {
  // Relaxed: `committed` was stored by this thread, or by a thread that has ended.
  return chunk.sequence + (chunk.committed.load(std::memory_order_relaxed) != 0 ? 1 : 0);
}

// Seals the thread's full chunk. A signal handler may jump out of here: a chunk that is then
// forgotten without being sealed stays active, and pack_active() writes it to the file.
void seal_chunk(WriterPool& pool, Writer& writer) noexcept {
  ThreadState& state = thread_state;
  trace::ChunkHeader* const chunk = state.chunk;
  writer.next_sequence = sequence_after(*chunk);
  std::atomic_signal_fence(std::memory_order_release);
  state.chunk = nullptr;
  state.cursor = state.end = nullptr;
  std::atomic_signal_fence(std::memory_order_release);
  pool.ring.seal(chunk);
}

// Seals the chunk of a thread that is gone, with the bytes that are committed; the writer goes on
// in a new chunk, because its cursor was lost with the thread's thread-local state.
void abandon_chunk(WriterPool& pool, Writer& writer) noexcept {
  pool.ring.for_each_chunk([&](trace::ChunkHeader& chunk) noexcept {
    // The state is read first: the `writer` of a chunk that is not active may be changing.
    if (chunk.state.load() != trace::ChunkState::kActive || chunk.writer != writer.id) return;
    if (chunk.sequence >= writer.next_sequence) writer.next_sequence = sequence_after(chunk);
    pool.ring.seal(&chunk);
  });
  writer.taken = nullptr;
  writer.chunk = nullptr;                // mutant: abandoned_chunk_kept
  writer.cursor = writer.end = nullptr;  // mutant: abandoned_chunk_kept
}

}  // namespace

std::uint32_t take_writer(WriterPool& pool) noexcept {
  const std::uint32_t idle = pool.idle.pop(pool.links);
  if (idle != kNoIndex) return idle;
  const std::uint32_t fresh = pool.count.fetch_add(1);
  if (fresh < kMaxWriters) return fresh;
  pool.count.store(kMaxWriters);
  return kNoIndex;
}

bool acquire_writer(WriterPool& pool, std::uint32_t index) noexcept {
  if (index == kNoIndex) return false;
  ThreadState& state = thread_state;
  Writer& writer = pool.writers[index];
  writer.id = index;
  state.writer = &writer;
  state.writer_id = index;
  state.chunk = writer.chunk;
  state.cursor = writer.cursor;
  state.end = writer.end;
  state.session = pool.session_id;
  const std::uint32_t thread_id = current_thread_id();
  writer.thread_id.store(thread_id);
  char name[16] = {};
  write_thread_record(thread_id, thread_name(name));
  return true;
}

void return_writer(WriterPool& pool) noexcept {
  ThreadState& state = thread_state;
  Writer& writer = *state.writer;
  writer.chunk = state.chunk;  // mutant: writer_returned_early
  writer.cursor = state.cursor;
  writer.end = state.end;
  writer.thread_id.store(0);
  state.writer = nullptr;
  state.chunk = nullptr;
  state.cursor = state.end = nullptr;
  state.session = kNoSession;
  pool.idle.push(writer.id, pool.links);
}

void reclaim_writers(WriterPool& pool, bool (*thread_is_gone)(std::uint32_t thread_id)) noexcept {
  const std::uint32_t count = pool.count.load();
  for (std::uint32_t i = kBackgroundWriter + 1; i < count && i < kMaxWriters; ++i) {
    Writer& writer = pool.writers[i];
    std::uint32_t thread_id = writer.thread_id.load();
    if (thread_id == 0 || !thread_is_gone(thread_id)) continue;
    // Fails if the thread returned the writer just before it ended: another thread may have the
    // writer by now.
    // mutant: reclaimed_without_exchange
    if (!writer.thread_id.compare_exchange_strong(thread_id, 0)) continue;
    abandon_chunk(pool, writer);
    pool.idle.push(i, pool.links);
  }
}

bool ring_has_room_again(trace::DropClass drop_class) noexcept {
  WriterPool& pool = *writer_pool;
  thread_state.chunk_is_reserved = pool.ring.is_short();
  if (thread_state.chunk_is_reserved) count_drop(pool, drop_class);
  return !thread_state.chunk_is_reserved;
}

// The longest record has room in a new chunk of any size, behind the records that begin the chunk.
static_assert(sizeof(trace::ChunkHeader) + sizeof(trace::Gap) + sizeof(trace::Thread) +
                  trace::kMaxRecordWords * trace::kWordBytes <=
              trace::kMinChunkBytes);

std::byte* reserve_in_new_chunk(trace::DropClass drop_class) noexcept {
  const ErrnoKeeper errno_keeper;
  WriterPool& pool = *writer_pool;
  ThreadState& state = thread_state;
  Writer& writer = *state.writer;
  const bool has_sealed = state.chunk != nullptr;
  if (has_sealed) seal_chunk(pool, writer);
  const bool important = drop_class != trace::DropClass::kCopy;
  // A chunk that was taken and not begun, because a signal handler jumped out of here, is used
  // first.
  if (writer.taken == nullptr) {
    writer.taken = take_chunk(pool, writer.size_class, important, has_sealed);
  }
  trace::ChunkHeader* const chunk = writer.taken;
  if (chunk == nullptr) {
    count_drop(pool, drop_class);
    return nullptr;
  }
  // A reader of a killed process's ring must never see old content under a new writer: the state is
  // "free" until all other fields are the writer's.
  chunk->committed.store(0, std::memory_order_relaxed);  // mutant: active_before_emptied
  chunk->packed = 0;
  chunk->writer = writer.id;
  chunk->sequence = writer.next_sequence;  // mutant: sequence_taken_early
  ++chunk->generation;
  // Release: pairs with readers of the file and the background thread's walk over the chunks.
  // mutant: active_without_release
  chunk->state.store(trace::ChunkState::kActive, std::memory_order_release);
  if (writer.size_class + 1 < Ring::kSizeClasses) ++writer.size_class;
  writer.taken = nullptr;
  std::atomic_signal_fence(std::memory_order_release);
  state.chunk = chunk;
  state.chunk_is_reserved = pool.on_full == OnFull::kDrop && pool.ring.is_short();
  state.cursor = reinterpret_cast<std::byte*>(chunk + 1);
  // A signal handler may jump out of here: until `end` is set, `end - cursor` is negative, which
  // reads as "no room".
  std::atomic_signal_fence(std::memory_order_release);
  state.end = reinterpret_cast<std::byte*>(chunk) + chunk->bytes;
  write_gap();
  // Relaxed: stored by this thread.
  write_thread_record(writer.thread_id.load(std::memory_order_relaxed), {});
  return state.cursor;
}

bool write_bytes(const void* record, std::size_t bytes, const char* tail,
                 std::size_t tail_bytes) noexcept {
  const std::size_t padded =
      (tail_bytes + trace::kWordBytes - 1) / trace::kWordBytes * trace::kWordBytes;
  const std::size_t total = bytes + padded;
  ThreadState& state = thread_state;
  std::byte* out = state.end - state.cursor < static_cast<std::ptrdiff_t>(total)
                       ? reserve_in_new_chunk(trace::DropClass::kOther)
                       : state.cursor;
  if (out == nullptr) return false;
  memcpy(out, record, bytes);  // mutant: commit_before_write
  memset(out + bytes, 0, padded);
  if (tail_bytes > 0) memcpy(out + bytes, tail, tail_bytes);
  // RecordHeader::words
  out[1] = static_cast<std::byte>(total / trace::kWordBytes);
  commit(total);
  return true;
}

}  // namespace gpumemtrace::preload
