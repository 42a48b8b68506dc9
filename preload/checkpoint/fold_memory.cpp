// SPDX-License-Identifier: Apache-2.0
// Allocations, frees, framework blocks, and contexts that end what is left in them.
#include "preload/checkpoint/fold.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::int8_t kCudaDeviceType = 1;  // c10::DeviceType::CUDA
constexpr std::uint16_t kSiteFlags = trace::kFlagByPointer | trace::kFlagSegment;

bool is_array(trace::MemoryKind memory) noexcept {
  return memory == trace::MemoryKind::kArray || memory == trace::MemoryKind::kMipmappedArray;
}

bool is_physical(trace::MemoryKind memory) noexcept {
  return memory == trace::MemoryKind::kPhysical || memory == trace::MemoryKind::kPhysicalHost;
}

trace::Place place_of(trace::PeakScope scope) noexcept {
  if (scope == trace::PeakScope::kManaged) return trace::Place::kManaged;
  return scope == trace::PeakScope::kHost ? trace::Place::kPinned : trace::Place::kDevice;
}

GroupKey allocation_key(const trace::Allocation& call) noexcept {
  GroupKey key;
  key.kind = static_cast<std::uint32_t>(trace::RecordKind::kAllocation);
  key.caller = call.call.caller;
  key.stack = call.call.stack;
  key.context = call.call.context;
  key.api = call.call.record.api;
  key.flags = call.call.record.flags & kSiteFlags;
  key.memory = call.memory;
  key.location = call.location;
  return key;
}

GroupKey block_key(const trace::Block& block) noexcept {
  GroupKey key;
  key.kind = static_cast<std::uint32_t>(trace::RecordKind::kBlock);
  key.stack = block.stack;
  key.location = block.device;
  return key;
}

}  // namespace

AddressTable<Fold::Live>& Fold::table_of(trace::MemoryKind memory) noexcept {
  return is_array(memory) ? arrays_ : addresses_;
}

bool Fold::is_conflict(const trace::RecordHeader& record) noexcept {
  if (record.kind != trace::RecordKind::kAllocation || record.result != trace::kCudaSuccess ||
      (record.flags & trace::kFlagCaptured) != 0) {
    return false;
  }
  const auto& call = reinterpret_cast<const trace::Allocation&>(record);
  return !is_physical(call.memory) && table_of(call.memory).find(call.address) != nullptr;
}

Fold::Target Fold::target_of(const trace::Allocation& call) noexcept {
  Target target;
  target.memory = reported_kind(call.memory);
  target.scope = scope_of(target.memory);
  if (target.scope == trace::PeakScope::kHost) {
    target.device = kHostMemory;
  } else if (call.location >= 0) {
    target.device = call.location;
  } else {
    target.device = device_of(call.call.context);
    if (target.device < 0) target.device = kUnknownDevice;
  }
  if (target.memory == trace::MemoryKind::kStreamOrdered) {
    target.pool = pools_.pool_of(call.pool, target.device);
    if (target.pool == FoldPools::kNone) {
      failed_ = true;
    } else if (pools_.pool(target.pool).device >= 0) {
      target.device = pools_.pool(target.pool).device;
    }
  }
  return target;
}

std::uint32_t Fold::group_of(const GroupKey& key, const Target& target) noexcept {
  const std::uint32_t index = ledger_.group_of(key);
  if (index != kNoIndex32 && ledger_.group(index).row == kNoIndex32) {
    ledger_.bind(index, target.scope, target.memory, target.device, target.pool);
  }
  return index;
}

void Fold::add_allocation(const trace::Allocation& call, std::uint32_t writer) noexcept {
  const trace::RecordHeader& record = call.call.record;
  const bool succeeded = record.result == trace::kCudaSuccess;
  if (succeeded && (record.flags & trace::kFlagCaptured) != 0) {
    graph_memory_ = true;
    keep(record);
    return;
  }
  const Target target = target_of(call);
  GroupKey key = allocation_key(call);
  if (failed_) return;
  if (target.scope == trace::PeakScope::kPools) key.pool = pools_.pool(target.pool).handle;
  const std::uint32_t group = group_of(key, target);
  if (failed()) return;
  if (!succeeded) ++ledger_.group(group).failed;
  if (!succeeded || call.address == 0) return count_gone(record);
  if (is_physical(call.memory)) return create_physical(call, group);
  make_room(table_of(call.memory), call, writer);
  Live live;
  live.address = call.address;
  live.bytes = {call.bytes, now_};
  live.group = group;
  live.pool = target.pool;
  live.record = keep(record);
  live.writer = writer;
  if (!is_array(call.memory)) {
    set_place(call.address, call.bytes, place_of(target.scope), target.device);
  }
  begin(table_of(call.memory), live);
}

// Into the table and the sums.
void Fold::begin(AddressTable<Live>& table, Live live) noexcept {
  if (table.insert(live) == nullptr) {
    failed_ = true;
    return;
  }
  ledger_.add(live.group, live.bytes, now_);
  const Account& account = ledger_.account_of(live.group);
  if (account.scope == trace::PeakScope::kPools) {
    pools_.allocate(live.pool, live.bytes.bytes);
    update_pool_sums(account.device);
  } else if (account.scope == trace::PeakScope::kDriver) {
    ledger_.physical_changed(account.device, now_);
  }
}

void Fold::end_sums(const Live& live) noexcept {
  ledger_.remove(live.group, live.bytes.bytes);
  const Account& account = ledger_.account_of(live.group);
  if (account.scope == trace::PeakScope::kPools) {
    pools_.free(live.pool, live.bytes.bytes);
    update_pool_sums(account.device);
  } else if (account.scope == trace::PeakScope::kHost) {
    if (!places_.forget(live.address, live.bytes.bytes)) failed_ = true;
  }
}

void Fold::count_pair(std::uint32_t index, std::uint64_t bytes, bool freed) noexcept {
  Group& group = ledger_.group(index);
  ++group.count;
  if (freed) ++group.freed;
  group.bytes += bytes;
  if (bytes > group.largest_bytes) group.largest_bytes = bytes;
}

// The driver hands out an address only when it is free, so the free of a live one is missing, or
// another thread recorded it a little late.
void Fold::make_room(AddressTable<Live>& table, const trace::Allocation& call,
                     std::uint32_t writer) noexcept {
  const Live* found = table.find(call.address);
  if (found == nullptr) return;
  const Live older = *found;
  end_sums(older);
  table.erase(found);
  if (!older.is_pinned) drop(older.record);
  std::size_t open = 0;
  for (const Shadow& shadow : shadows_) {
    if (shadow.deadline >= ticks_) {
      shadows_[open++] = shadow;
    } else {
      give_up(shadow);
    }
  }
  shadows_.erase(open, shadows_.size());
  const Shadow shadow{call.address,      ticks_ + trace::kReorderWindowTicks, writer, older.group,
                      older.bytes.bytes, older.is_pinned ? older.record : 0};
  if (!shadows_.push(shadow)) failed_ = true;
}

// No free came in time: the older allocation ended unseen.
void Fold::give_up(const Shadow& shadow) noexcept {
  count_pair(shadow.group, shadow.bytes, false);
  drop(shadow.record);
  ++counts_.live_address_allocated;
}

bool Fold::end_shadow(const trace::Free& call, std::uint32_t writer) noexcept {
  for (std::size_t i = 0; i < shadows_.size(); ++i) {
    const Shadow shadow = shadows_[i];
    if (shadow.address != call.address || shadow.writer == writer || shadow.deadline < ticks_) {
      continue;
    }
    shadows_.erase(i, i + 1);
    ++counts_.order_repaired;
    if (shadow.record != 0) {
      keep_in_order(call);
    } else {
      count_pair(shadow.group, shadow.bytes, true);
      count_gone(call.call.record);
    }
    return true;
  }
  return false;
}

// The checkpoint is one stream, in which nobody looks for a free of another thread: the newer
// allocation goes behind the free.
void Fold::keep_in_order(const trace::Free& call) noexcept {
  keep(call.call.record);
  Live* newer = table_of(call.memory).find(call.address);
  if (newer == nullptr || newer->record == 0) return;
  const auto moved = reinterpret_cast<const trace::Allocation&>(kept_.record(newer->record));
  kept_.drop(newer->record);
  newer->record = keep(moved.call.record);
}

void Fold::add_free(const trace::Free& call, std::uint32_t writer) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (call.address == 0) return count_gone(record);
  if (is_physical(call.memory)) return release_physical(call);
  if (record.result != trace::kCudaSuccess && !trace::is_error_of_another_call(record.result)) {
    return add_refused_free(call);
  }
  if ((record.flags & trace::kFlagCaptured) != 0) {
    graph_memory_ = true;
    keep(record);
    return;
  }
  if (record.result == trace::kCudaSuccess && !shadows_.empty() && end_shadow(call, writer)) {
    return;
  }
  AddressTable<Live>& table = table_of(call.memory);
  const Live* found = table.find(call.address);
  if (found == nullptr) {
    keep(record);
    return;
  }
  const Live live = *found;
  table.erase(found);
  end_sums(live);
  if (live.is_pinned) {
    keep(record);
    return;
  }
  count_pair(live.group, live.bytes.bytes, true);
  drop(live.record);
  count_gone(record);
}

// What was live then must still be so when the record is read.
void Fold::add_refused_free(const trace::Free& call) noexcept {
  if (Live* live = table_of(call.memory).find(call.address); live != nullptr) {
    live->is_pinned = true;
  }
  keep(call.call.record);
}

void Fold::add_block(const trace::Block& block) noexcept {
  if (block.device_type != kCudaDeviceType || block.address == 0) return count_only(block.record);
  Physical* device = ledger_.physical(block.device);
  if (device == nullptr) return;
  if (block.reserved_bytes > device->framework_reserved_peak) {
    device->framework_reserved_peak = block.reserved_bytes;
  }
  const Live* found = blocks_.find(block.address);
  if (found == nullptr && block.bytes <= 0) {
    keep(block.record);
    return;
  }
  if (found != nullptr) {
    const Live older = *found;
    blocks_.erase(found);
    end_sums(older);
    count_pair(older.group, older.bytes.bytes, true);
    drop(older.record);
  }
  if (block.bytes <= 0) return count_gone(block.record);
  if (found != nullptr) {
    ++counts_.live_address_allocated;
    ++now_;
  }
  mark_segment(block.address);
  const Target target{trace::PeakScope::kFramework, trace::MemoryKind::kUnknown, block.device, 0};
  Live live;
  live.address = block.address;
  live.bytes = {static_cast<std::uint64_t>(block.bytes), now_};
  live.group = group_of(block_key(block), target);
  if (failed()) return;
  live.record = keep(block.record);
  begin(blocks_, live);
}

// A block in driver memory where none was before: a new segment begins with its first block.
void Fold::mark_segment(std::uint64_t address) noexcept {
  if (Live* around = addresses_.find(address); around != nullptr) {
    const Group& group = ledger_.group(around->group);
    if (ledger_.account_of(around->group).scope != trace::PeakScope::kDriver ||
        (group.key.flags & trace::kFlagSegment) != 0) {
      return;
    }
    const Row& row = ledger_.row_of(around->group);
    const Target target{trace::PeakScope::kDriver, row.memory, row.device, 0};
    GroupKey key = group.key;
    key.flags |= trace::kFlagSegment;
    const std::uint32_t segments = group_of(key, target);
    if (failed()) return;
    ledger_.move(around->group, segments, around->bytes);
    around->group = segments;
    kept_.record(around->record).flags |= trace::kFlagSegment;
    return;
  }
  if (virtual_.reservations.ranges().empty()) return;
  Reservation* reservation = virtual_.reservations.containing(address);
  if (reservation == nullptr || reservation->is_segment) return;
  const MappedRange* mapping = virtual_.mappings.containing(address);
  if (mapping == nullptr) return;
  const PhysicalMemory& memory = *virtual_.memories.find(mapping->memory);
  const std::int32_t device =
      memory.group == kNoIndex32 ? kUnknownDevice : ledger_.row_of(memory.group).device;
  mark_reservation(*reservation, device);
}

bool Fold::ends_with(const trace::ContextCall& call, const Live& live) noexcept {
  const bool is_primary = call.operation != trace::ContextOperation::kDestroy;
  const Row& row = ledger_.row_of(live.group);
  if (row.memory == trace::MemoryKind::kStreamOrdered) {
    return is_primary && row.device == call.device;
  }
  const std::uint32_t id = ledger_.group(live.group).key.context;
  if (id == 0) return false;
  if (call.handle_context != 0 || !is_primary) return id == call.handle_context;
  return id < contexts_.size() && contexts_[id].is_primary && contexts_[id].device == call.device;
}

// True where the end of the context ended anything. The records of that stay: what a teardown ended
// is reported as never freed.
bool Fold::end_context(const trace::ContextCall& call) noexcept {
  MappedArray<std::uint64_t> ended;
  bool any = false;
  for (AddressTable<Live>* table : {&addresses_, &arrays_}) {
    table->for_each([&](const Live& live) noexcept {
      if (ends_with(call, live) && !ended.push(live.address)) failed_ = true;
    });
    for (const std::uint64_t address : ended) {
      const Live* live = table->find(address);
      end_sums(*live);
      table->erase(live);
    }
    any = any || !ended.empty();
    ended.erase(0, ended.size());
  }
  return any;
}

void Fold::add_context_call(const trace::ContextCall& call) noexcept {
  using trace::ContextOperation;
  const trace::RecordHeader& record = call.call.record;
  const bool ends = call.operation == ContextOperation::kDestroy ||
                    call.operation == ContextOperation::kResetPrimary ||
                    (call.operation == ContextOperation::kReleasePrimary && call.still_active == 0);
  if (record.result != trace::kCudaSuccess || !ends || !end_context(call)) {
    return count_only(record);
  }
  keep(record);
}

}  // namespace gpumemtrace::preload
