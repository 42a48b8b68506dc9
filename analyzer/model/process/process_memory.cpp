// SPDX-License-Identifier: Apache-2.0
// Calls of the driver that hand memory out and take it back.
#include "analyzer/model/process/process.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::analyzer {

using ledger::class_of;
using ledger::is_array;
using ledger::is_physical;
using ledger::kind_of;

CallSite ProcessModel::site_of(const trace::CallHeader& call) const {
  CallSite site = ledger::site_of(call);
  site.stack = present_stack_;
  return site;
}

GroupKey ProcessModel::key_of(const trace::CallHeader& call, Kind kind, std::int32_t location) {
  // Made in its place, not copied: see FlatMap::add().
  GroupKey key{.site = site_of(call)};
  key.kind = kind;
  key.context = call.context;
  key.device = contexts_.device_of(kind, location, call.context);
  if (key.device == kUnknownDevice && call.record.result == trace::kCudaSuccess) {
    ++course_.unknown_context;
  }
  return key;
}

void ProcessModel::apply_allocation(const trace::Allocation& call, std::uint32_t writer) {
  const Kind kind = kind_of(call.memory);
  GroupKey key = key_of(call.call, kind, call.location);
  if (kind == Kind::kStreamOrdered) {
    key.pool = pools_.pool_of(call.pool, key.device);
    if (pools_.device_of(key.pool) >= 0) key.device = pools_.device_of(key.pool);
  }
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) {
    accounts_.count_failure(key);
    if (record.result == trace::kCudaOutOfMemory) note_failure(call, key, writer);
    return;
  }
  if (call.address == 0) return;
  collected_.end_collection(writer);
  note_phase(call.call.stack, false);
  if ((record.flags & trace::kFlagCaptured) != 0) {
    key.kind = Kind::kGraph;
    key.pool = 0;
    graphs_.capture_allocation(call.stream, {call.address, call.bytes, accounts_.group_of(key)});
    return;
  }
  const LiveAllocation entry{call.address, call.bytes, now_, accounts_.group_of(key), key.pool};
  accounts_.add_host_ticks(entry.group, host_ticks_of(call.call));
  note_for_activity(call, entry.group, kind);
  if (!in_checkpoint_ && level_of(kind) != Level::kHost && framework_.devices().empty()) {
    steps_.allocated(entry.group, call.bytes, now_);
  }
  if (is_physical(call.memory)) {
    if (unfinished_frees_.erase(call.address) != 0) release_handle(call.address, writer);
    if (!virtual_memory_.create(entry)) ++course_.live_address_allocated;
    if (kind == Kind::kVmm) physical_changed(key.device);
  } else if (is_array(call.memory)) {
    make_room(Memory::Space::kArrays, call.address);
    memory_.add(Memory::Space::kArrays, entry);
    physical_changed(key.device);
  } else {
    add(entry, key);
  }
  if ((record.flags & trace::kFlagSegment) != 0) (void)discover_segment(call.address);
  if (out_of_memory_.pending()) {
    out_of_memory_.succeeded(writer, key.site, key.device, call.bytes, call.call.end);
  }
}

// CUPTI may report this memory's allocation, and what the driver does with its pages.
void ProcessModel::note_for_activity(const trace::Allocation& call, std::uint32_t group,
                                     Kind kind) {
  if (!activity_.is_on()) return;
  if (kind == Kind::kManaged) {
    activity_.managed().allocate(call.address, call.bytes, group, call.call.record.time);
  }
  if (!activity_.checks_memory() || in_checkpoint_) return;
  activity_.memory_check().add_call(call.call, call.address, call.bytes, kind, false);
}

void ProcessModel::note_for_activity(const trace::Free& call, Memory::Space space) {
  if (!activity_.is_on()) return;
  const LiveAllocation* live = memory_.find(space, call.address);
  std::optional<Kind> kind;
  if (live != nullptr) kind = accounts_.group(live->group).key.kind;
  if (kind == Kind::kManaged) activity_.managed().free(call.address);
  if (!activity_.checks_memory() || in_checkpoint_) return;
  activity_.memory_check().add_call(call.call, call.address, live == nullptr ? 0 : live->bytes,
                                    kind, true);
}

void ProcessModel::add(const LiveAllocation& entry, const GroupKey& key) {
  make_room(Memory::Space::kAddresses, entry.address);
  memory_.add(Memory::Space::kAddresses, entry);
  const Level level = level_of(key.kind);
  address_map_.set(entry.address, entry.bytes, {class_of(level), key.device});
  if (level == Level::kDriver) {
    physical_changed(key.device);
  } else if (level == Level::kPool && pools_.allocate(entry.link, entry.bytes)) {
    pools_changed(key.device);
  }
}

// The driver hands out an address only when it is free, so a live one means that its free comes
// later in the order than it should, or is missing.
void ProcessModel::make_room(Memory::Space space, std::uint64_t address) {
  if (memory_.find(space, address) == nullptr) return;
  // First: a free that is still to come may be that of the present allocation.
  if (unfinished_frees_.erase(address) != 0) {
    release(space, address, 0);
    return;
  }
  if (look_ahead_.take_free(address)) {
    ++course_.events;
    ++course_.order_repaired;
    release(space, address, 0);
    return;
  }
  ++course_.live_address_allocated;
  LiveAllocation removed;
  memory_.remove(space, address, Accounts::End::kImplicit, removed);
  after_release(removed);
}

bool ProcessModel::release(Memory::Space space, std::uint64_t address, std::uint32_t writer,
                           const trace::CallHeader* call) {
  LiveAllocation removed;
  if (!memory_.remove(space, address, Accounts::End::kFreed, removed)) return false;
  if (call != nullptr) {
    const CallSite site = site_of(*call);
    accounts_.add_free_site(removed.group, site, now_);
    accounts_.add_host_ticks(removed.group, host_ticks_of(*call));
    memory_.remember_free(removed, site);
  }
  if (out_of_memory_.pending()) out_of_memory_.flushed(writer, removed.bytes);
  after_release(removed);
  return true;
}

void ProcessModel::after_release(const LiveAllocation& entry) {
  const GroupKey& key = accounts_.group(entry.group).key;
  switch (level_of(key.kind)) {
    case Level::kDriver: {
      if (entry.link != 0) framework_.remove_segment(entry.link, now_);
      physical_changed(key.device);
      return;
    }
    case Level::kPool: {
      return pools_.free(entry.link, entry.bytes);
    }
    case Level::kHost: {
      address_map_.forget(entry.address, entry.bytes);
      return;
    }
    default: {
      return;
    }
  }
}

void ProcessModel::apply_free(const trace::Free& call, std::uint32_t writer) {
  if (call.address == 0) return;
  const trace::RecordHeader& record = call.call.record;
  if (is_physical(call.memory)) {
    if (record.result == trace::kCudaSuccess) release_handle(call.address, writer, &call.call);
    return;
  }
  const Memory::Space space = Memory::Live::space_of(call.memory);
  if (record.result != trace::kCudaSuccess && !trace::is_error_of_another_call(record.result)) {
    return apply_refused_free(call, space);
  }
  if ((record.flags & trace::kFlagCaptured) != 0) {
    return graphs_.capture_free(call.stream, call.address);
  }
  note_for_activity(call, space);
  note_collected(record, writer, [&] { return memory_.find(space, call.address); });
  if (release(space, call.address, writer, &call.call)) return;
  // A pointer that came with an imported pool is given back like one of our own.
  LiveAllocation imported;
  const bool known =
      memory_.forget_ended(call.address) || external_mappings_.erase(call.address) != 0 ||
      memory_.remove(Memory::Space::kImports, call.address, Accounts::End::kFreed, imported);
  if (!known && record.result == trace::kCudaSuccess) ++course_.unknown_frees;
}

void ProcessModel::apply_refused_free(const trace::Free& call, Memory::Space space) {
  const ledger::Refusal refusal = memory_.explain_refused(space, call.address);
  InvalidFreeRow row;
  row.offset_bytes = refusal.offset_bytes;
  if (refusal.has_group) row.allocated_at = accounts_.group(refusal.group).key.site;
  if (refusal.has_freed_at) row.freed_before_at = refusal.freed_at;
  if (refusal.what == FreedWhat::kLiveMemory) {
    accounts_.count_failure(accounts_.group(refusal.group).key);
  }
  const InvalidFree refused{site_of(call.call), call.call.record.result, refusal.what};
  invalid_frees_.try_emplace(refused, row).first->second.tally.add(refusal.bytes, now_);
}

void ProcessModel::release_handle(std::uint64_t handle, std::uint32_t writer,
                                  const trace::CallHeader* call) {
  VirtualMemory::Removed freed;
  if (!virtual_memory_.release(handle, freed)) ++course_.unknown_frees;
  after_physical_release(freed, writer, call);
}

void ProcessModel::after_physical_release(const VirtualMemory::Removed& freed, std::uint32_t writer,
                                          const trace::CallHeader* call) {
  for (const LiveAllocation& entry : freed) {
    if (call != nullptr) accounts_.add_free_site(entry.group, site_of(*call), now_);
    if (out_of_memory_.pending()) out_of_memory_.flushed(writer, entry.bytes);
    const GroupKey& key = accounts_.group(entry.group).key;
    if (key.kind == Kind::kVmm) physical_changed(key.device);
  }
}

}  // namespace gpumemtrace::analyzer
