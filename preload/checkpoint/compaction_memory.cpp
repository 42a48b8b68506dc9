// SPDX-License-Identifier: Apache-2.0
// Allocations, frees, framework blocks, and contexts that end what is left in them.
#include "preload/checkpoint/compaction.hpp"
#include "trace/file_layout.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint16_t kSiteFlags = trace::kFlagByPointer | trace::kFlagSegment;

trace::Totals allocations_like(const trace::Allocation& call) noexcept {
  trace::Totals like = totals_like(call.call);
  like.record.flags = call.call.record.flags & kSiteFlags;
  like.memory = call.memory;
  return like;
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

std::uint32_t Compaction::group_of(const trace::Totals& like,
                                   const ledger::Target& target) noexcept {
  return bind(sums_.group_of(like), target);
}

std::uint32_t Compaction::bind(std::uint32_t group, const ledger::Target& target) noexcept {
  if (group != kNoIndex32 && sums_.group(group).row == kNoIndex32) {
    sums_.bind(group, target.kind, target.device, target.pool);
  }
  return group;
}

void Compaction::apply(const trace::Allocation& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  const bool succeeded = record.result == trace::kCudaSuccess;
  if (succeeded && (record.flags & trace::kFlagCaptured) != 0) {
    graph_memory_ = true;
    retain(record);
    return;
  }
  trace::Totals like = allocations_like(call);
  const ledger::Target target = ledger::target_of(call, contexts_, pools_);
  like.location = target.call_device;
  if (target.kind == Kind::kStreamOrdered) like.pool = pools_.pools()[target.pool].handle;
  const std::uint32_t group = group_of(like, target);
  if (failed()) return;
  if (!succeeded) ++sums_.group(group).totals.failed;
  if (!succeeded || call.address == 0) return count_gone(record);
  if (ledger::is_physical(call.memory)) return create_physical(call, group);
  const Memory::Space space = Memory::space_of(call.memory);
  make_room(space, call.address);
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
    copy_locations_.set(call.address, call.bytes,
                        {ledger::class_of(ledger::level_of(target.kind)), target.device});
  }
  begin(*live);
  if ((like.record.flags & trace::kFlagSegment) != 0) {
    grow_segments(target.device, {live->bytes, live->born_time});
  }
}

// Adds the allocation to the sums.
void Compaction::begin(const Live& live) noexcept {
  sums_.add(live.group, {live.bytes, live.born_time}, now_);
  const Account& account = sums_.account_of(live.group);
  if (account.level == Level::kDriver) {
    rounding_.add(account.device, sums_.row_of(live.group).kind, live.address, live.bytes);
    physical_changed(account.device);
  } else if (account.level == Level::kPool && pools_.allocate(live.pool, live.bytes)) {
    physical_changed(account.device);
  } else if (account.level == Level::kManaged) {
    sums_.add_managed(pools_, now_);
  }
}

void Compaction::end_sums(const Live& live) noexcept {
  sums_.remove(live.group, live.bytes);
  const Account& account = sums_.account_of(live.group);
  if (account.level == Level::kPool) {
    pools_.free(live.pool, live.bytes);
  } else if (account.level == Level::kHost) {
    copy_locations_.forget(live.address, live.bytes);
  } else if (account.level == Level::kDriver) {
    if ((sums_.group(live.group).totals.record.flags & trace::kFlagSegment) != 0) {
      shrink_segments(account.device, live.bytes);
    }
    rounding_.remove(account.device, sums_.row_of(live.group).kind, live.address, live.bytes);
    physical_changed(account.device);
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
  trace::Totals& totals = group.totals;
  ++totals.count;
  totals.bytes += pair.bytes;
  totals.host_ticks += pair.host_ticks;
  if (pair.bytes > totals.largest_bytes) totals.largest_bytes = pair.bytes;
  if (pair.born_time > totals.last_time) totals.last_time = pair.born_time;
  if (is_freed) ++group.freed.count;
  if (freed_by != nullptr) group.freed.add_site(ledger::site_of(*freed_by), now_);
}

// The driver hands out only free addresses, so the free of a live one is missing, or another thread
// recorded it a little late.
void Compaction::make_room(Memory::Space space, std::uint64_t address) noexcept {
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
  const std::uint64_t deadline_ticks = ticks_ + trace::kReorderWindowTicks;
  if (!shadows_.push({address, deadline_ticks, writer_, older.group, pair})) failed_ = true;
}

// No free came in time: the older allocation ended unseen.
void Compaction::give_up(const Shadow& shadow) noexcept {
  count_pair(shadow.group, shadow.pair, false, nullptr);
  ++counts_.live_address_allocated;
}

bool Compaction::end_shadow(const trace::Free& call) noexcept {
  for (std::size_t i = 0; i < shadows_.size(); ++i) {
    const Shadow shadow = shadows_[i];
    if (shadow.address != call.address || shadow.writer == writer_ ||
        shadow.deadline_ticks < ticks_) {
      continue;
    }
    shadows_.erase(i, i + 1);
    ++counts_.order_repaired;
    count_pair(shadow.group, shadow.pair, true, nullptr);
    count_gone(call.call.record);
    return true;
  }
  return false;
}

void Compaction::apply(const trace::Free& call) noexcept {
  switch (ledger::meaning_of(call)) {
    case ledger::FreeMeaning::kNothing:
      return count_gone(call.call.record);
    case ledger::FreeMeaning::kReleasesHandle:
      return release_physical(call);
    case ledger::FreeMeaning::kRefused:
      return refuse(call);
    case ledger::FreeMeaning::kCaptured: {
      graph_memory_ = true;
      retain(call.call.record);
      return;
    }
    case ledger::FreeMeaning::kTakesBack:
      return take_back(call);
  }
}

void Compaction::take_back(const trace::Free& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (record.result == trace::kCudaSuccess && !shadows_.empty() && end_shadow(call)) return;
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

void Compaction::refuse(const trace::Free& call) noexcept {
  const ledger::Refusal refusal = refused_frees_.add(
      memory_, call, ledger::site_of(call.call), now_,
      [&](std::uint32_t group) { return ledger::site_of(sums_.group(group).totals); });
  if (refusal.what == trace::FreedWhat::kLiveMemory) ++sums_.group(refusal.group).totals.failed;
  count_gone(call.call.record);
}

void Compaction::apply(const trace::Block& block) noexcept {
  if (!ledger::is_gpu_block(block)) return count_gone(block.record);
  replace_block(block);
  if (writer_ == trace::kCheckpointWriter) return;
  Physical* device = sums_.physical(block.device);
  if (device != nullptr) device->framework.report(block.reserved_bytes, now_);
}

std::uint32_t Compaction::group_of(const trace::Block& block) noexcept {
  BlockGroup& last = block_groups_[trace::number_of(block.stack) % block_groups_.size()];
  if (last.stack == block.stack && last.device == block.device) return last.group;
  trace::Totals like;
  like.kind = static_cast<std::uint32_t>(trace::RecordKind::kBlock);
  like.stack = block.stack;
  like.location = block.device;
  last = {block.stack, block.device,
          group_of(like, {.kind = Kind::kBlock, .device = block.device})};
  return last.group;
}

void Compaction::replace_block(const trace::Block& block) noexcept {
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
  const std::uint32_t group = group_of(block);
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
  trace::Totals like = sums_.group(group).totals;
  if ((like.record.flags & trace::kFlagSegment) != 0) return group;
  like.record.flags |= trace::kFlagSegment;
  const Row row = sums_.row_of(group);
  const std::uint32_t segments =
      group_of(like, {.kind = row.kind, .device = row.device, .pool = row.pool});
  if (failed()) return group;
  sums_.move(group, segments, live);
  return segments;
}

// A block in driver memory where none was before: a new segment begins with its first block.
void Compaction::mark_segment(std::uint64_t address) noexcept {
  if (Live* around = memory_.find(Memory::Space::kAddresses, address); around != nullptr) {
    if (sums_.account_of(around->group).level != Level::kDriver) return;
    if ((sums_.group(around->group).totals.record.flags & trace::kFlagSegment) != 0) return;
    around->group = move_to_segments(around->group, {around->bytes, around->born_time});
    grow_segments(sums_.row_of(around->group).device, {around->bytes, around->born_time});
    retained_.record(around->record).flags |= trace::kFlagSegment;
    return;
  }
  VirtualMemory::Reservation* reservation = virtual_memory_.reservations().containing(address);
  if (reservation == nullptr || reservation->tag.is_segment()) return;
  const VirtualMemory::Mapping* mapping = virtual_memory_.mappings().containing(address);
  if (mapping != nullptr) {
    mark_reservation(*reservation, virtual_memory_.physical_of(*mapping).entry.device);
  }
}

// True if the end of the context ended any memory. The records of that memory stay: memory that a
// teardown ended is reported as never freed.
bool Compaction::end_context(const trace::ContextCall& call) noexcept {
  bool any = false;
  const auto belongs = [&](const Live& live) {
    const Row& row = sums_.row_of(live.group);
    return contexts_.ends_with(call, row.kind, row.device, sums_.group(live.group).totals.context);
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

// The driver takes memory for a context by itself.
void Compaction::add_context_cause(const trace::ContextCall& call) noexcept {
  using trace::ContextOperation;
  if (call.operation == ContextOperation::kDestroy) {
    driver_use_.end_context(call.handle_context);
  } else if (call.operation == ContextOperation::kCreate ||
             call.operation == ContextOperation::kRetainPrimary) {
    add_driver_cause(contexts_.device_of(call), ledger::DriverCause::kContext, call.call);
  }
}

void Compaction::apply(const trace::ContextCall& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  const bool opened = contexts_.open(call, ledger::site_of(call.call));
  OwnCurves* const own = opened ? curves(contexts_.device_of(call)) : nullptr;
  if (own != nullptr) own->add_context();
  const bool ended = ledger::end_of(call) != ledger::EndedBy::kNothing && end_context(call);
  if (record.result == trace::kCudaSuccess) add_context_cause(call);
  if (!opened && !ended) return count_gone(record);
  retain(record);
}

}  // namespace gpumemtrace::preload
