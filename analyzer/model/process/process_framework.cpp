// SPDX-License-Identifier: Apache-2.0
// The framework's blocks, its segments, and failures for want of memory.
#include "analyzer/model/process/process.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::int8_t kCudaDeviceType = 1;  // c10::DeviceType::CUDA

// Shortages of different kinds that are told in full.
constexpr std::size_t kMaxSnapshots = 64;

GroupKey block_key(std::uint32_t stack, std::int32_t device, Phase phase) {
  GroupKey key;
  key.site.stack = stack;
  key.kind = Kind::kBlock;
  key.device = device;
  key.phase = phase;
  return key;
}

}  // namespace

void ProcessModel::apply_block(const trace::Block& block, std::uint32_t writer) {
  ++course_.events;
  note_stack(block.stack, writer, true);
  if (block.device_type != kCudaDeviceType || block.address == 0) return;
  if (block.bytes <= 0) {
    note_block_release(block);
    note_collected(block.record, writer, [&] { return framework_.find_block(block.address); });
    if (!framework_.remove_block(block.address, now_)) ++course_.unknown_frees;
  } else {
    collected_.end_collection(writer);
    const Phase phase = note_phase(block.stack, true);
    if (framework_.remove_block(block.address, now_)) {
      ++course_.live_address_allocated;
      begin_next_moment();
    }
    std::uint32_t segment = framework_.find_segment(block.address);
    if (segment == 0) segment = discover_segment(block.address);
    const std::uint32_t group = accounts_.group_of(block_key(present_stack_, block.device, phase));
    framework_.add_block(block, group, segment, now_);
    note_block(group, static_cast<std::uint64_t>(block.bytes));
  }
  // In a checkpoint the blocks of its sums are gone.
  if (in_checkpoint_) return;
  if (framework_.check_totals(block, now_)) ++course_.framework_mismatch;
}

// A block in driver memory where none was before: that memory is a segment of the framework.
std::uint32_t ProcessModel::discover_segment(std::uint64_t address) {
  LiveAllocation* around = memory_.find(Memory::Space::kAddresses, address);
  VirtualMemory::Reservation* reservation = virtual_memory_.find_reservation(address);
  if (around == nullptr && reservation == nullptr) {
    // A new segment begins with its first block, so this happens only where something is missing.
    if (searched_version_ == memory_.version()) return 0;
    searched_version_ = memory_.version();
    around = memory_.find_containing(address);
  }
  if (around != nullptr) {
    const GroupKey& key = accounts_.group(around->group).key;
    if (level_of(key.kind) != Level::kDriver) return 0;
    Segment segment;
    segment.born = around->born;
    segment.begin = around->address;
    segment.end = around->address + around->bytes;
    segment.bytes = around->bytes;
    segment.device = key.device;
    if (around->link == 0) accounts_.move_to_segments(*around);
    around->link = framework_.add_segment(segment, now_);
    accounts_.count_segment(around->group);
    return around->link;
  }
  const VirtualMemory::Mapping* mapping = virtual_memory_.find_mapping(address);
  if (reservation == nullptr || mapping == nullptr) return 0;
  Segment segment;
  segment.begin = reservation->begin();
  segment.end = reservation->begin() + reservation->bytes();
  segment.device = accounts_.group(mapping->entry.group).key.device;
  segment.mapped = true;
  const std::uint32_t id = framework_.add_segment(segment, now_);
  virtual_memory_.attach_segment(*reservation, id, [&](const LiveAllocation& mapped) {
    framework_.grow_segment(id, mapped.address, mapped.bytes, mapped.born, now_);
  });
  return id;
}

void ProcessModel::note_failure(const trace::Allocation& call, const GroupKey& key,
                                std::uint32_t writer) {
  OomIncident failure;
  failure.level = level_of(key.kind);
  failure.device = key.device;
  failure.site = key.site;
  failure.time = now_;
  failure.start_ticks = call.call.record.time;
  failure.requested_bytes = call.bytes;
  if (out_of_memory_.failed(writer, failure) && snapshots_.size() < kMaxSnapshots) {
    out_of_memory_.set_snapshot(writer, take_snapshot(failure.level, failure.device));
  }
}

void ProcessModel::apply_framework_oom(const trace::FrameworkOom& record, std::uint32_t writer) {
  ++course_.events;
  note_stack(record.stack, writer, false);
  if (record.device_type != kCudaDeviceType) return;
  OomIncident failure;
  failure.level = Level::kFramework;
  failure.device = record.device;
  failure.site.stack = present_stack_;
  failure.time = now_;
  failure.start_ticks = record.record.time;
  failure.requested_bytes = record.requested;
  const bool is_new = out_of_memory_.raised(writer, failure);
  if (is_new && !in_checkpoint_ && snapshots_.size() < kMaxSnapshots) {
    out_of_memory_.set_raised_snapshot(take_snapshot(Level::kFramework, record.device));
  }
}

std::uint32_t ProcessModel::take_snapshot(Level level, std::int32_t device) {
  OomSnapshot snapshot;
  snapshot.level = level;
  snapshot.device = device;
  snapshot.parts = parts_now(device);
  snapshot.sample = devices_.state(device).last_sample;
  snapshot.holders = level == Level::kFramework ? live_block_holders(device)
                                                : sum_by_holder(live_now(level, device));
  snapshot.driver_holders = sum_by_holder(live_now(Level::kDriver, device));
  if (framework_.find(device) != nullptr) snapshot.fragmentation = fragmentation_now(device);
  snapshots_.push_back(std::move(snapshot));
  return static_cast<std::uint32_t>(snapshots_.size());
}

}  // namespace gpumemtrace::analyzer
