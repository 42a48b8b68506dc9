// SPDX-License-Identifier: Apache-2.0
// Allocations, frees, framework blocks, and contexts that end what is left in them.
#include "preload/checkpoint/compaction.hpp"
#include "trace/file_layout.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::int8_t kCudaDeviceType = 1;  // c10::DeviceType::CUDA
constexpr std::uint16_t kSiteFlags = trace::kFlagByPointer | trace::kFlagSegment;

GroupKey allocation_key(const trace::Allocation& call) noexcept {
  GroupKey key;
  key.kind = static_cast<std::uint32_t>(trace::RecordKind::kAllocation);
  key.caller = call.call.caller;
  key.stack = call.call.stack;
  key.context = call.call.context;
  key.api = call.call.record.api;
  key.flags = call.call.record.flags & kSiteFlags;
  key.memory = call.memory;
  return key;
}

GroupKey block_key(const trace::Block& block) noexcept {
  GroupKey key;
  key.kind = static_cast<std::uint32_t>(trace::RecordKind::kBlock);
  key.stack = block.stack;
  key.location = block.device;
  return key;
}

bool are_alike(const trace::RefusedFree& a, const trace::RefusedFree& b) noexcept {
  return a.caller == b.caller && a.stack == b.stack && a.record.api == b.record.api &&
         a.record.flags == b.record.flags && a.record.result == b.record.result && a.what == b.what;
}

}  // namespace

bool Compaction::is_conflict(const trace::RecordHeader& record) noexcept {
  if (record.kind != trace::RecordKind::kAllocation || record.result != trace::kCudaSuccess ||
      (record.flags & trace::kFlagCaptured) != 0) {
    return false;
  }
  const auto& call = reinterpret_cast<const trace::Allocation&>(record);
  return !ledger::is_physical(call.memory) &&
         memory_.find(Memory::space_of(call.memory), call.address) != nullptr;
}

std::uint32_t Compaction::group_of(const GroupKey& key, const Target& target) noexcept {
  const std::uint32_t index = sums_.group_of(key);
  if (index != kNoIndex32 && sums_.group(index).row == kNoIndex32) {
    sums_.bind(index, target.kind, target.device, target.pool);
  }
  return index;
}

void Compaction::add_allocation(const trace::Allocation& call, std::uint32_t writer) noexcept {
  const trace::RecordHeader& record = call.call.record;
  const bool succeeded = record.result == trace::kCudaSuccess;
  if (succeeded && (record.flags & trace::kFlagCaptured) != 0) {
    graph_memory_ = true;
    retain(record);
    return;
  }
  GroupKey key = allocation_key(call);
  Target target;
  target.kind = ledger::kind_of(call.memory);
  target.device = contexts_.device_of(target.kind, call.location, call.call.context);
  key.location = target.device;
  if (target.kind == Kind::kStreamOrdered) {
    target.pool = pools_.pool_of(call.pool, target.device);
    if (pools_.device_of(target.pool) >= 0) target.device = pools_.device_of(target.pool);
    key.pool = pools_.pools()[target.pool].handle;
  }
  const std::uint32_t group = group_of(key, target);
  if (failed()) return;
  if (!succeeded) ++sums_.group(group).failed;
  if (!succeeded || call.address == 0) return count_gone(record);
  if (ledger::is_physical(call.memory)) return create_physical(call, group);
  const Memory::Space space = Memory::space_of(call.memory);
  make_room(space, call.address, writer);
  Live* const live = memory_.add(space, call.address);
  if (live == nullptr) {
    failed_ = true;
    return;
  }
  live->bytes = call.bytes;
  live->born_time = now_;
  live->group = group;
  live->pool = target.pool;
  live->record = retain(record);
  if (space == Memory::Space::kAddresses) {
    address_map_.set(call.address, call.bytes,
                     {ledger::class_of(ledger::level_of(target.kind)), target.device});
  }
  begin(*live);
  if ((key.flags & trace::kFlagSegment) != 0) {
    grow_segments(target.device, {live->bytes, live->born_time});
  }
}

// Into the sums.
void Compaction::begin(const Live& live) noexcept {
  sums_.add(live.group, {live.bytes, live.born_time}, now_);
  const Account& account = sums_.account_of(live.group);
  if (account.level == Level::kDriver ||
      (account.level == Level::kPool && pools_.allocate(live.pool, live.bytes))) {
    physical_changed(account.device);
  }
}

void Compaction::end_sums(const Live& live) noexcept {
  sums_.remove(live.group, live.bytes);
  const Account& account = sums_.account_of(live.group);
  if (account.level == Level::kPool) {
    pools_.free(live.pool, live.bytes);
  } else if (account.level == Level::kHost) {
    address_map_.forget(live.address, live.bytes);
  } else if ((sums_.group(live.group).key.flags & trace::kFlagSegment) != 0) {
    shrink_segments(account.device, live.bytes);
  }
}

Compaction::Pair Compaction::pair_of(const Live& live) noexcept {
  Pair pair{live.bytes, 0, live.born_time};
  const trace::RecordHeader& record = retained_.record(live.record);
  if (record.kind == trace::RecordKind::kAllocation) {
    pair.host_ticks = ledger::host_ticks_of(reinterpret_cast<const trace::CallHeader&>(record));
  }
  return pair;
}

void Compaction::count_pair(std::uint32_t index, const Pair& pair, bool is_freed,
                            const trace::CallHeader* freed_by) noexcept {
  Group& group = sums_.group(index);
  ++group.count;
  group.bytes += pair.bytes;
  group.host_ticks += pair.host_ticks;
  if (pair.bytes > group.largest_bytes) group.largest_bytes = pair.bytes;
  if (pair.born_time > group.last_time) group.last_time = pair.born_time;
  if (group.freed_at == trace::FreedAt::kNotTold) group.freed_at = trace::FreedAt::kOnePlace;
  if (is_freed) ++group.freed;
  if (freed_by == nullptr) return;
  const ledger::CallSite site = ledger::site_of(*freed_by);
  if (group.first_freed_time == 0) {
    group.first_freed_time = now_;
    group.first_freed_at = site;
  }
  if (group.first_freed_at != site) group.freed_at = trace::FreedAt::kSeveralPlaces;
}

// The driver hands out an address only when it is free, so the free of a live one is missing, or
// another thread recorded it a little late.
void Compaction::make_room(Memory::Space space, std::uint64_t address,
                           std::uint32_t writer) noexcept {
  Live older;
  if (!memory_.remove(space, address, older)) return;
  const Pair pair = pair_of(older);
  end_sums(older);
  drop(older.record);
  std::size_t open = 0;
  for (const Shadow& shadow : shadows_) {
    if (shadow.deadline_ticks >= ticks_) {
      shadows_[open++] = shadow;
    } else {
      give_up(shadow);
    }
  }
  shadows_.erase(open, shadows_.size());
  const Shadow shadow{address,       ticks_ + trace::kReorderWindowTicks,
                      writer,        older.group,
                      pair.bytes,    pair.host_ticks,
                      pair.born_time};
  if (!shadows_.push(shadow)) failed_ = true;
}

// No free came in time: the older allocation ended unseen.
void Compaction::give_up(const Shadow& shadow) noexcept {
  count_pair(shadow.group, {shadow.bytes, shadow.host_ticks, shadow.born_time}, false, nullptr);
  ++counts_.live_address_allocated;
}

bool Compaction::end_shadow(const trace::Free& call, std::uint32_t writer) noexcept {
  for (std::size_t i = 0; i < shadows_.size(); ++i) {
    const Shadow shadow = shadows_[i];
    if (shadow.address != call.address || shadow.writer == writer ||
        shadow.deadline_ticks < ticks_) {
      continue;
    }
    shadows_.erase(i, i + 1);
    ++counts_.order_repaired;
    count_pair(shadow.group, {shadow.bytes, shadow.host_ticks, shadow.born_time}, true, nullptr);
    count_gone(call.call.record);
    return true;
  }
  return false;
}

void Compaction::add_free(const trace::Free& call, std::uint32_t writer) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (call.address == 0) return count_gone(record);
  if (ledger::is_physical(call.memory)) return release_physical(call);
  if (record.result != trace::kCudaSuccess && !trace::is_error_of_another_call(record.result)) {
    return add_refused_free(call);
  }
  if ((record.flags & trace::kFlagCaptured) != 0) {
    graph_memory_ = true;
    retain(record);
    return;
  }
  if (record.result == trace::kCudaSuccess && !shadows_.empty() && end_shadow(call, writer)) {
    return;
  }
  Live live;
  if (!memory_.remove(Memory::space_of(call.memory), call.address, live)) {
    (void)memory_.forget_ended(call.address);
    retain(record);
    return;
  }
  const Pair pair = pair_of(live);
  end_sums(live);
  memory_.remember_free(live, ledger::site_of(call.call));
  count_pair(live.group,
             {pair.bytes, pair.host_ticks + ledger::host_ticks_of(call.call), pair.born_time}, true,
             &call.call);
  drop(live.record);
  count_gone(record);
}

void Compaction::add_refused_free(const trace::Free& call) noexcept {
  const ledger::Refusal refusal =
      memory_.explain_refused(Memory::space_of(call.memory), call.address);
  trace::RefusedFree refused;
  refused.record.api = call.call.record.api;
  refused.record.flags = call.call.record.flags & trace::kFlagByPointer;
  refused.record.result = call.call.record.result;
  refused.caller = call.call.caller;
  refused.stack = call.call.stack;
  refused.what = refusal.what;
  refused.count = 1;
  refused.bytes = refusal.bytes;
  refused.first_time = refused.last_time = now_;
  refused.offset_bytes = refusal.offset_bytes;
  if (refusal.has_group) {
    const ledger::CallSite site = site_of(sums_.group(refusal.group).key);
    refused.allocated_caller = site.caller;
    refused.allocated_stack = site.stack;
    refused.allocated_api = site.api;
    refused.allocated_flags = trace::kRefusedFreeKnown | ledger::flags_of(site);
  }
  if (refusal.has_freed_at) {
    refused.freed_caller = refusal.freed_at.caller;
    refused.freed_stack = refusal.freed_at.stack;
    refused.freed_api = refusal.freed_at.api;
    refused.freed_flags = trace::kRefusedFreeKnown | ledger::flags_of(refusal.freed_at);
  }
  if (refusal.what == trace::FreedWhat::kLiveMemory) ++sums_.group(refusal.group).failed;
  count_refused(refused);
  count_gone(call.call.record);
}

void Compaction::count_refused(const trace::RefusedFree& refused) noexcept {
  for (trace::RefusedFree& known : refused_frees_) {
    if (!are_alike(known, refused)) continue;
    known.count += refused.count;
    known.bytes += refused.bytes;
    known.last_time = refused.last_time;
    return;
  }
  if (!refused_frees_.push(refused)) failed_ = true;
}

void Compaction::add_block(const trace::Block& block, std::uint32_t writer) noexcept {
  if (block.device_type != kCudaDeviceType || block.address == 0) return count_only(block.record);
  apply_block(block);
  if (writer == trace::kCheckpointWriter) return;
  Physical* device = sums_.physical(block.device);
  if (device != nullptr) device->framework.report(block.reserved_bytes, now_);
}

void Compaction::apply_block(const trace::Block& block) noexcept {
  Live older;
  const bool was_live = blocks_.erase(block.address, older);
  if (!was_live && block.bytes <= 0) {
    retain(block.record);
    return;
  }
  if (was_live) {
    const Pair pair = pair_of(older);
    end_sums(older);
    count_pair(older.group, pair, true, nullptr);
    drop(older.record);
    tensors_.end(block.address, [this](RecordId record) { drop(record); });
  }
  if (block.bytes <= 0) return count_gone(block.record);
  if (was_live) {
    ++counts_.live_address_allocated;
    ++now_;
  }
  mark_segment(block.address);
  const std::uint32_t group = group_of(block_key(block), {Kind::kBlock, block.device, 0});
  Live* const live = failed() ? nullptr : blocks_.add(block.address);
  if (live == nullptr) {
    failed_ = true;
    return;
  }
  live->bytes = static_cast<std::uint64_t>(block.bytes);
  live->born_time = now_;
  live->group = group;
  live->record = retain(block.record);
  begin(*live);
}

std::uint32_t Compaction::move_to_segments(std::uint32_t group, const LiveBytes& live) noexcept {
  GroupKey key = sums_.group(group).key;
  if ((key.flags & trace::kFlagSegment) != 0) return group;
  key.flags |= trace::kFlagSegment;
  const Row row = sums_.row_of(group);
  const std::uint32_t segments = group_of(key, {row.kind, row.device, row.pool});
  if (failed()) return group;
  sums_.move(group, segments, live);
  return segments;
}

// A block in driver memory where none was before: a new segment begins with its first block.
void Compaction::mark_segment(std::uint64_t address) noexcept {
  if (Live* around = memory_.find(Memory::Space::kAddresses, address); around != nullptr) {
    if (sums_.account_of(around->group).level != Level::kDriver) return;
    if ((sums_.group(around->group).key.flags & trace::kFlagSegment) != 0) return;
    around->group = move_to_segments(around->group, {around->bytes, around->born_time});
    grow_segments(sums_.row_of(around->group).device, {around->bytes, around->born_time});
    retained_.record(around->record).flags |= trace::kFlagSegment;
    return;
  }
  VirtualMemory::Reservation* reservation = virtual_memory_.reservations().containing(address);
  if (reservation == nullptr || reservation->tag.is_segment) return;
  const VirtualMemory::Mapping* mapping = virtual_memory_.mappings().containing(address);
  if (mapping != nullptr) {
    mark_reservation(*reservation, virtual_memory_.physical_of(*mapping).entry.device);
  }
}

// True where the end of the context ended anything. The records of that stay: what a teardown ended
// is reported as never freed.
bool Compaction::end_context(const trace::ContextCall& call) noexcept {
  bool any = false;
  const auto belongs = [&](const Live& live) {
    const Row& row = sums_.row_of(live.group);
    return contexts_.ends_with(call, row.kind, row.device, sums_.group(live.group).key.context);
  };
  const ledger::Teardown teardown{ledger::end_of(call), false, ledger::site_of(call.call)};
  const bool has_memory =
      memory_.end_all(belongs, teardown, [&](const Live& ended, const Memory::Ended*) {
        end_sums(ended);
        any = true;
      });
  if (!has_memory) failed_ = true;
  return any;
}

void Compaction::add_context_call(const trace::ContextCall& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  const bool opened = contexts_.open(call, ledger::site_of(call.call));
  const bool ended = ledger::end_of(call) != ledger::EndedBy::kNothing && end_context(call);
  if (!opened && !ended) return count_only(record);
  retain(record);
}

}  // namespace gpumemtrace::preload
