// SPDX-License-Identifier: Apache-2.0
// The hot path of recording: one slot in the thread's chunk for each driver call.
//
//   Slot<Allocation> slot(guard, ...);   reserve room in the thread's chunk, fill in, commit
//   result = real(...);
//   slot.complete(result);               result and outputs, then the end time (release)
//
// The calling thread takes no lock, allocates no memory and makes no system call while its chunk
// has room.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "preload/base/clock.hpp"
#include "preload/ring/call_guard.hpp"
#include "preload/ring/control.hpp"
#include "preload/ring/thread_state.hpp"
#include "preload/ring/writers.hpp"
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

// Room for one record in the thread's chunk, or nullptr.
template <class Record>
[[gnu::always_inline]] inline Record* reserve() noexcept {
  ThreadState& state = thread_state;
  if constexpr (drop_class_of<Record>() == trace::DropClass::kCopy) {
    if (state.chunk_is_reserved && !ring_has_room_again(drop_class_of<Record>())) return nullptr;
  }
  if (state.end - state.cursor < static_cast<std::ptrdiff_t>(sizeof(Record))) [[unlikely]] {
    return reinterpret_cast<Record*>(reserve_in_new_chunk(drop_class_of<Record>()));
  }
  fetch_ahead(state.cursor, state.end, sizeof(Record));
  return reinterpret_cast<Record*>(state.cursor);
}

// The record of one driver call in the thread's chunk: begun at the call, completed at its return.
template <class Record>
class Slot {
 public:
  // `fill` stores the arguments into the record.
  template <class Fill>
  Slot(const CallGuard&, std::uint16_t api, std::uint16_t flags, const void* caller,
       trace::StackId stack, trace::ContextId context, Fill&& fill) noexcept {
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
    commit(sizeof(Record));  // mutant: passed_before_filled
  }

  explicit operator bool() const noexcept { return record_ != nullptr; }
  Record& record() noexcept { return *record_; }

  void complete(int result, std::uint64_t end) noexcept {
    record_->call.record.result = static_cast<std::uint16_t>(result);
    // Release: pairs with the packer and the reader: a slot that has an end time has its result and
    // outputs.
    // mutant: end_without_release
    std::atomic_ref(record_->call.end).store(end, std::memory_order_release);
  }

 private:
  Record* record_ = nullptr;
};

// Writes a record that is complete at once. `fill` stores the other fields into a record whose kind
// and size are set; the time is set after that.
template <class Record, class Fill>
[[nodiscard]] bool write_event(const CallGuard&, Fill&& fill) noexcept {
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
