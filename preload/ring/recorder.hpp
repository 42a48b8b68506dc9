// SPDX-License-Identifier: Apache-2.0
// The hot path: one slot a call.
//
//   Slot<Allocation> slot(guard, ...);   reserve room in the thread's chunk, fill in, commit
//   result = real(...);
//   slot.complete(result);               result and outputs, then the end time (release)
//
// On the calling thread, no lock, no allocation, no system call while the chunk has room.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "preload/base/clock.hpp"
#include "preload/ring/thread_state.hpp"
#include "preload/ring/writers.hpp"
#include "preload/session/session.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {

template <class Record>
constexpr trace::DropClass drop_class_of() noexcept {
  if constexpr (std::is_same_v<Record, trace::Allocation>) return trace::DropClass::kAllocation;
  if constexpr (std::is_same_v<Record, trace::Free>) return trace::DropClass::kFree;
  if constexpr (std::is_same_v<Record, trace::Copy> || std::is_same_v<Record, trace::Set>) {
    return trace::DropClass::kCopy;
  }
  if constexpr (std::is_same_v<Record, trace::Block>) return trace::DropClass::kBlock;
  return trace::DropClass::kOther;
}

// True where the calling thread may record now.
inline bool recording(bool may_start) noexcept {
  const std::uint32_t session = control.session.load(std::memory_order_relaxed);
  // Relaxed: whatever the session owns is reached through the thread's writer, which
  // attach_thread() got with acquire order.
  if (thread_state.session == session) [[likely]]
    return true;
  return attach_thread(may_start);
}

inline constexpr std::size_t kCacheLineBytes = 64;
// What a thread writes at most while a line comes from another core's cache (up to 1 us).
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
// kFetchAheadBytes further on will be the first to touch: to ask twice for a line that is on its
// way costs more than it gains. Never past `end`: what follows is another thread's.
inline void fetch_ahead(const std::byte* cursor, const std::byte* end,
                        std::size_t record_bytes) noexcept {
  if (static_cast<std::size_t>(end - cursor) < kFetchAheadBytes + record_bytes) return;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(cursor) + kFetchAheadBytes;
  std::uintptr_t line = (begin + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
  for (; line < begin + record_bytes; line += kCacheLineBytes) fetch_for_writing(line);
}

// Room for one record in the thread's chunk, or nullptr.
template <class Record>
Record* reserve() noexcept {
  ThreadState& state = thread_state;
  if constexpr (drop_class_of<Record>() == trace::DropClass::kCopy) {
    if (state.chunk_is_reserved && !reserve_is_over(drop_class_of<Record>())) return nullptr;
  }
  if (state.end - state.cursor < static_cast<std::ptrdiff_t>(sizeof(Record))) [[unlikely]] {
    return reinterpret_cast<Record*>(reserve_in_new_chunk(sizeof(Record), drop_class_of<Record>()));
  }
  fetch_ahead(state.cursor, state.end, sizeof(Record));
  return reinterpret_cast<Record*>(state.cursor);
}

// Makes `bytes` more of the chunk visible to readers of the file.
inline void commit(std::size_t bytes) noexcept {
  ThreadState& state = thread_state;
  // A signal handler may jump out of here: what the cursor has passed must be filled in.
  std::atomic_signal_fence(std::memory_order_release);
  state.cursor += bytes;
  const auto* content = reinterpret_cast<const std::byte*>(state.chunk + 1);
  // Release: pairs with the acquire of the background thread's last pass and, for a killed
  // process, with whoever reads the file: a committed slot is filled in.
  state.chunk->committed.store(static_cast<std::uint32_t>(state.cursor - content),
                               std::memory_order_release);
}

// A call of the driver API.
template <class Record>
class Slot {
 public:
  // `fill` stores the arguments into the record.
  template <class Fill>
  Slot(const CallGuard&, std::uint16_t api, std::uint16_t flags, const void* caller,
       std::uint32_t stack, std::uint32_t context, Fill&& fill) noexcept {
    record_ = reserve<Record>();
    if (record_ == nullptr) return;
    new (record_) Record;
    trace::CallHeader& call = record_->call;
    call.record.kind = trace::kind_of<Record>();
    call.record.words = sizeof(Record) / trace::kWordBytes;
    call.record.api = api;
    call.record.flags = flags;
    call.caller = reinterpret_cast<std::uintptr_t>(caller);
    call.stack = stack;
    call.context = context;
    fill(*record_);
    call.record.time = ticks();
    commit(sizeof(Record));
  }

  explicit operator bool() const noexcept { return record_ != nullptr; }
  Record& record() noexcept { return *record_; }

  void complete(int result, std::uint64_t end) noexcept {
    record_->call.record.result = static_cast<std::uint16_t>(result);
    // Release: pairs with the packer and the reader: a slot with an end has its result and outputs.
    std::atomic_ref(record_->call.end).store(end, std::memory_order_release);
  }

 private:
  Record* record_ = nullptr;
};

// A record that is whole at once. `fill` gets the record with kind, words and time set.
template <class Record, class Fill>
bool write_event(const CallGuard&, Fill&& fill) noexcept {
  Record* record = reserve<Record>();
  if (record == nullptr) return false;
  new (record) Record;
  record->record.kind = trace::kind_of<Record>();
  record->record.words = sizeof(Record) / trace::kWordBytes;
  fill(*record);
  record->record.time = ticks();
  commit(sizeof(Record));
  return true;
}

}  // namespace gpumemtrace::preload
