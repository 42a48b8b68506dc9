// SPDX-License-Identifier: Apache-2.0
// The effects of calls on the analyzer's own accounts, segments and statistics. The ledger itself
// keeps the live memory.
#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

GroupKey ProcessMemory::key_of(const trace::CallHeader& call, const ledger::Target& target) {
  // GroupKey is constructed in place, because copying it would be slow: see ledger::FlatMap::add().
  GroupKey key{.site = present.site_of(call),
               .kind = target.kind,
               .device = target.device,
               .pool = target.pool,
               .context = call.context};
  if (target.call_device == kUnknownDevice && call.record.result == trace::kCudaSuccess) {
    ++statistics.unknown_context;
  }
  return key;
}

bool ProcessMemory::fail(const trace::Allocation& call, const GroupKey& key) {
  accounts.count_failure(key);
  if (call.call.record.result != trace::kCudaOutOfMemory) return false;
  return out_of_memory.failed(present.writer, {.level = level_of(key.kind),
                                               .device = key.device,
                                               .site = key.site,
                                               .time = present.time,
                                               .start_ticks = call.call.record.time,
                                               .requested_bytes = call.bytes});
}

void ProcessMemory::capture(const trace::Allocation& call, GroupKey key) {
  key.kind = Kind::kGraph;
  key.pool = 0;
  graphs.capture_allocation(call.stream, {call.address, call.bytes, accounts.group_of(key)});
}

void ProcessMemory::allocate(const trace::Allocation& call, const GroupKey& key,
                             std::uint32_t group) {
  const LiveAllocation entry{call.address, call.bytes, present.time, group, key.pool};
  accounts.add_host_ticks(group, host_ticks_of(call.call));
  if (ledger::is_physical(call.memory)) {
    create_physical(entry);
  } else {
    hand_out(Live::space_of(call.memory), entry);
  }
  if ((call.call.record.flags & trace::kFlagSegment) != 0) {
    (void)discover_segment(call.address, nullptr);
  }
  if (out_of_memory.pending()) {
    out_of_memory.succeeded(present.writer, key.site, key.device, call.bytes, call.call.end);
  }
}

void ProcessMemory::hand_out(Space space, const LiveAllocation& entry) {
  ProcessLedger::hand_out(space, entry.address, [&](LiveAllocation& added) {
    added.bytes = entry.bytes;
    added.born = entry.born;
    added.group = entry.group;
    added.link = entry.link;
  });
}

// Takes the end of live memory. `call` freed it; nullptr if none did or the call is not known.
void ProcessMemory::on_end(const LiveAllocation& entry, ledger::End how,
                           const trace::CallHeader* call) {
  ++version_;
  const bool is_freed = how == ledger::End::kFreed || how == ledger::End::kFreedLate;
  if (how == ledger::End::kReplaced) ++statistics.live_address_allocated;
  if (how == ledger::End::kTornDown) ++statistics.implicit_frees;
  if (call != nullptr) {
    count_collected(call->record, &entry);
    accounts.add_free_site(entry.group, present.site_of(*call), present.time);
    accounts.add_host_ticks(entry.group, host_ticks_of(*call));
  }
  accounts.remove(entry, is_freed ? Accounts::End::kFreed : Accounts::End::kImplicit);
  if (shared.has_live_exports()) {
    shared.end_exported(entry.born,
                        call == nullptr ? std::nullopt : std::optional(present.site_of(*call)),
                        present.time);
  }
  if (is_freed && out_of_memory.pending()) {
    out_of_memory.add_freed_bytes(how == ledger::End::kFreed ? present.writer : 0, entry.bytes);
  }
  if (level_of(accounts.group(entry.group).key.kind) != Level::kDriver) return;
  if (entry.link != 0) framework.remove_segment(entry.link, present.time);
  if (nccl.is_used()) nccl.release(entry.born);
}

// Called if an address is handed out again while its memory is live. True if another thread's free
// of it follows only later in the trace: that free then counts as made now.
bool ProcessMemory::finds_late_free(std::uint64_t address) {
  if (!look_ahead.take_free(address)) return false;
  ++statistics.events;
  ++statistics.order_repaired;
  return true;
}

void ProcessMemory::count_collected(const trace::RecordHeader& record,
                                    const LiveAllocation* freed) {
  if ((record.flags & trace::kFlagCollected) == 0) {
    collected.end_collection(present.writer);
  } else if (freed != nullptr) {
    collected.free(present.writer, *freed, present.time);
  }
}

void ProcessMemory::on_unknown_free(const trace::Free& call, bool was_ended) {
  count_collected(call.call.record, nullptr);
  // A pointer of an imported pool is freed by the same call as the process's own memory.
  const bool known =
      was_ended || external_mappings.erase(call.address) != 0 || end_import(call.address);
  if (!known && call.call.record.result == trace::kCudaSuccess) ++statistics.unknown_frees;
}

void ProcessMemory::on_refused(const trace::Free&, const ledger::Refusal& refusal) {
  if (refusal.what != FreedWhat::kLiveMemory) return;
  accounts.count_failure(accounts.group(refusal.group).key);
}

bool ProcessMemory::end_block(const trace::Block& block) {
  if (block.bytes <= 0) {
    const LiveAllocation* const freed = framework.find_block(block.address);
    count_collected(block.record, freed);
    // The recorder takes no stack when the framework frees a block, but a snapshot of PyTorch may
    // have one.
    if (freed != nullptr && block.stack != trace::StackId::kNone) {
      accounts.add_free_site(freed->group, {.stack = present.stack}, present.time);
    }
  }
  return framework.remove_block(block.address, present.time);
}

void ProcessMemory::on_replaced_block() {
  ++statistics.live_address_allocated;
  advance_model_time();
}

std::uint32_t ProcessMemory::begin_block(const trace::Block& block, Phase phase) {
  PrivatePools::Capture* const capture = framework.pools().capture_of(block, present.writer);
  std::uint32_t segment = framework.find_segment(block.address);
  if (segment == 0) {
    segment = discover_segment(block.address, capture);
  } else if (capture != nullptr) {
    framework.join_pool(segment, *capture, present.time);
  }
  const std::uint32_t group = accounts.group_of({.site = {.stack = present.stack},
                                                 .kind = Kind::kBlock,
                                                 .device = block.device,
                                                 .phase = phase});
  framework.add_block(block, group, segment, present.time);
  return group;
}

std::uint32_t ProcessMemory::discover_segment(std::uint64_t address,
                                              PrivatePools::Capture* capture) {
  LiveAllocation* around = live.find(Space::kAddresses, address);
  VirtualMemory::Reservation* reservation = virtual_memory.reservations().containing(address);
  if (around == nullptr && reservation == nullptr) {
    // A new segment begins with its first block, so find() above finds its memory. A search around
    // the address is needed only if records are missing in the trace.
    if (searched_version_ == version_) return 0;
    searched_version_ = version_;
    around = live.find_containing(address);
  }
  if (around != nullptr) return add_segment_around(*around, capture);
  const VirtualMemory::Mapping* mapping = virtual_memory.mappings().containing(address);
  if (reservation == nullptr || mapping == nullptr) return 0;
  const std::int32_t device = accounts.group(mapping->entry.group).key.device;
  const std::uint32_t id =
      framework.add_segment({.begin = reservation->begin(),
                             .end = reservation->begin() + reservation->bytes(),
                             .device = device,
                             .mapped = true,
                             .pool = framework.pool_of(capture, device)},
                            present.time);
  virtual_memory.attach_segment(*reservation, {id}, *this);
  return id;
}

std::uint32_t ProcessMemory::add_segment_around(LiveAllocation& around,
                                                PrivatePools::Capture* capture) {
  // a copy, because group_of() may add a group, which moves all others
  const GroupKey key = accounts.group(around.group).key;
  if (level_of(key.kind) != Level::kDriver) return 0;
  if (around.link == 0) accounts.count_as_segment_at_peaks(around);
  around.link = framework.add_segment({.born = around.born,
                                       .begin = around.address,
                                       .end = around.address + around.bytes,
                                       .bytes = around.bytes,
                                       .device = key.device,
                                       .pool = framework.pool_of(capture, key.device)},
                                      present.time);
  accounts.count_segment(around.group);
  return around.link;
}

void ProcessMemory::on_reference(const trace::Mapping& call, const PhysicalMemory* physical) {
  const bool is_retained = call.operation == trace::MappingOperation::kRetainHandle;
  if (physical == nullptr && is_retained) ++statistics.unknown_frees;
}

// Adds a segment for a reservation of virtual memory that the record marks as one. Returns an empty
// tag for all other reservations.
ProcessMemory::SegmentTag ProcessMemory::tag_of(const trace::Mapping& call) {
  if ((call.call.record.flags & trace::kFlagSegment) == 0) return {};
  // A checkpoint marks the reservation as a segment if its first block came before the checkpoint.
  return {framework.add_segment({.begin = call.address,
                                 .end = call.address + call.bytes,
                                 .device = call.location,
                                 .mapped = true},
                                present.time)};
}

LiveAllocation ProcessMemory::imported(const trace::Mapping& call) {
  const GroupKey key = key_of(call.call, Kind::kImportedVmm, call.location);
  const LiveAllocation entry{call.handle, call.bytes, present.time, accounts.group_of(key), 0};
  on_live(entry);
  return entry;
}

LiveAllocation ProcessMemory::mapping_of(const trace::Mapping& call, PhysicalMemory* physical) {
  if (physical == nullptr) return {};
  LiveAllocation& memory = physical->entry;
  if (memory.bytes == 0) {
    accounts.grow(memory, call.bytes, present.time);
    memory.bytes = call.bytes;
  }
  GroupKey key = accounts.group(memory.group).key;
  key.kind = Kind::kMapping;
  return {call.address, call.bytes, present.time, accounts.group_of(key), 0};
}

void ProcessMemory::on_joined(LiveAllocation& physical, SegmentTag tag) {
  if (physical.link == 0) accounts.count_as_segment_at_peaks(physical);
  physical.link = tag.id;
}

void ProcessMemory::on_grown(LiveAllocation& mapping, SegmentTag tag) {
  mapping.link = tag.id;
  framework.grow_segment(tag.id, mapping.address, mapping.bytes, mapping.born, present.time);
}

void ProcessMemory::on_shrunk(const LiveAllocation& mapping, SegmentTag tag) {
  framework.shrink_segment(tag.id, mapping.address, mapping.bytes, present.time);
}

void ProcessMemory::on_unreferenced(const LiveAllocation& physical, const trace::CallHeader* call) {
  accounts.remove(physical, Accounts::End::kFreed);
  if (call != nullptr) {
    accounts.add_free_site(physical.group, present.site_of(*call), present.time);
  }
  if (out_of_memory.pending()) out_of_memory.add_freed_bytes(present.writer, physical.bytes);
  const GroupKey& key = accounts.group(physical.group).key;
  if (key.kind != Kind::kVmm) return;
  if (nccl.is_used()) nccl.release(physical.born);
  physical_changed(key.device);
}

void ProcessMemory::apply(const trace::Pool& call) {
  if (call.call.record.result != trace::kCudaSuccess) return;
  if (pools.apply_call(call, present.time)) pools_changed(call.device);
}

void ProcessMemory::apply(const trace::PoolSample& sample) {
  if (present.in_checkpoint) return pools.restore_sample(sample);
  const std::int32_t device = pools.device_of(sample);
  const std::uint64_t more_bytes = pools.apply_sample(sample, present.time);
  if (more_bytes == 0) return;
  DeviceState& state = devices.state(device);
  state.count_in_last_sample(more_bytes);
  state.log.count_in_last_sample(present.time, more_bytes);
  pools_changed(device);
}

void ProcessMemory::on_import(const trace::Import& call) {
  switch (call.operation) {
    case trace::ImportOperation::kIpcExport:
      return export_memory(call);
    case trace::ImportOperation::kIpcOpen:
    case trace::ImportOperation::kPoolImportPointer:
    case trace::ImportOperation::kExternalImport:
      return open_import(call);
    case trace::ImportOperation::kExternalMap:
      external_mappings.insert(call.address);
      return;
    case trace::ImportOperation::kIpcClose:
    case trace::ImportOperation::kExternalDestroy: {
      const bool is_external = call.operation == trace::ImportOperation::kExternalDestroy;
      const auto group = end_import(is_external ? call.handle : call.address);
      if (group) accounts.add_free_site(*group, present.site_of(call.call), present.time);
      return;
    }
    default:
      return;
  }
}

void ProcessMemory::export_memory(const trace::Import& call) {
  if (call.handle == 0) return;
  const LiveAllocation* const memory = live.find(Space::kAddresses, call.address);
  if (memory != nullptr) shared.hand_out(call.handle, *memory, present.time);
}

void ProcessMemory::open_import(const trace::Import& call) {
  const bool is_external = call.operation == trace::ImportOperation::kExternalImport;
  const std::uint64_t address = is_external ? call.handle : call.address;
  if (address == 0) return;
  if (live.find(Space::kImports, address) != nullptr) {
    if (call.operation == trace::ImportOperation::kIpcOpen) shared.open_again(address);
    return;
  }
  const GroupKey key = key_of(call.call, is_external ? Kind::kExternal : Kind::kIpc, -1);
  const LiveAllocation entry{address, call.bytes, present.time, accounts.group_of(key), 0};
  if (!is_external) {
    const bool is_of_pool = call.operation == trace::ImportOperation::kPoolImportPointer;
    shared.open(is_of_pool ? 0 : call.handle, is_of_pool, entry);
  }
  hand_out(Space::kImports, entry);
}

std::optional<std::uint32_t> ProcessMemory::end_import(std::uint64_t address) {
  if (!shared.close(address, present.time)) return std::nullopt;
  LiveAllocation removed;
  if (!live.remove(Space::kImports, address, removed)) return std::nullopt;
  ++version_;
  accounts.remove(removed, Accounts::End::kFreed);
  return removed.group;
}

void ProcessMemory::apply(const trace::Graph& call) {
  switch (call.operation) {
    case trace::GraphOperation::kAddAllocation: {
      const GroupKey key = key_of(call.call, Kind::kGraph, call.device);
      return graphs.add_allocation(call.graph, {call.address, call.bytes, accounts.group_of(key)});
    }
    case trace::GraphOperation::kAddFree:
      return graphs.add_free(call.graph, call.address);
    case trace::GraphOperation::kInstantiate:
      return graphs.instantiate(call, present.time);
    case trace::GraphOperation::kLaunch: {
      const GraphExecutable* executable = graphs.find_executable(call.graph);
      if (executable != nullptr) launch(executable->memory);
      return;
    }
    case trace::GraphOperation::kDestroyExecutable:
      return graphs.destroy_executable(call.graph != 0 ? call.graph : call.executable);
    case trace::GraphOperation::kDestroy:
      return graphs.destroy(call.graph);
    case trace::GraphOperation::kBeginCapture:
      return graphs.begin_capture(call.stream);
    case trace::GraphOperation::kEndCapture:
      return graphs.end_capture(call.stream, call.graph);
    case trace::GraphOperation::kClone:
      return graphs.clone(call.graph, call.executable);
    default:
      return;
  }
}

void ProcessMemory::launch(const GraphMemory& graph) {
  for (const GraphAllocation& allocation : graph.allocations) {
    if (allocation.address == 0) continue;
    (void)end(Space::kAddresses, allocation.address, ledger::End::kFreed, nullptr);
    hand_out(Space::kAddresses,
             {allocation.address, allocation.bytes, present.time, allocation.group, 0});
    advance_model_time();
  }
  for (const std::uint64_t address : graph.frees) {
    (void)end(Space::kAddresses, address, ledger::End::kFreed, nullptr);
  }
}

}  // namespace gpumemtrace::analyzer
