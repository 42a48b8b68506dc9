// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/memory_calls.hpp"

namespace gpumemtrace::analyzer {

GroupKey MemoryCalls::key_of(const trace::Allocation& call) {
  return memory_.key_of(call.call, ledger::target_of(call, memory_.contexts, memory_.pools));
}

bool MemoryCalls::fail(const trace::Allocation& call, const GroupKey& key) {
  memory_.accounts.count_failure(key);
  if (call.call.record.result != trace::kCudaOutOfMemory) return false;
  return memory_.out_of_memory.failed(memory_.present.writer, {.level = level_of(key.kind),
                                                               .device = key.device,
                                                               .site = key.site,
                                                               .time = memory_.present.time,
                                                               .start_ticks = call.call.record.time,
                                                               .requested_bytes = call.bytes});
}

void MemoryCalls::capture(const trace::Allocation& call, GroupKey key) {
  key.kind = Kind::kGraph;
  key.pool = 0;
  memory_.graphs.capture_allocation(call.stream,
                                    {call.address, call.bytes, memory_.accounts.group_of(key)});
}

void MemoryCalls::allocate(const trace::Allocation& call, const GroupKey& key,
                           std::uint32_t group) {
  const LiveAllocation entry{call.address, call.bytes, memory_.present.time, group, key.pool};
  memory_.accounts.add_host_ticks(group, host_ticks_of(call.call));
  if (ledger::is_physical(call.memory)) {
    memory_.create_physical(entry, key);
  } else if (ledger::is_array(call.memory)) {
    memory_.make_room(Memory::Space::kArrays, call.address);
    memory_.live.add(Memory::Space::kArrays, entry);
    memory_.rounding.add(key.device, key.kind, entry.address, entry.bytes);
    memory_.physical_changed(key.device);
  } else {
    memory_.hand_out(entry, key);
  }
  if ((call.call.record.flags & trace::kFlagSegment) != 0) {
    (void)memory_.discover_segment(call.address, nullptr);
  }
  if (memory_.out_of_memory.pending()) {
    memory_.out_of_memory.succeeded(memory_.present.writer, key.site, key.device, call.bytes,
                                    call.call.end);
  }
}

void MemoryCalls::take_back(const trace::Free& call) {
  const trace::RecordHeader& record = call.call.record;
  const Memory::Space space = Memory::space_of(call.memory);
  memory_.count_collected(record, [&] { return memory_.live.find(space, call.address); });
  if (memory_.take_back(space, call.address, memory_.present.writer, &call.call)) return;
  // A pointer that came with an imported pool is freed like one of our own.
  LiveAllocation imported;
  const bool known =
      memory_.live.forget_ended(call.address) ||
      memory_.external_mappings.erase(call.address) != 0 ||
      memory_.live.remove(Memory::Space::kImports, call.address, Accounts::End::kFreed, imported);
  if (!known && record.result == trace::kCudaSuccess) ++memory_.statistics.unknown_frees;
}

void MemoryCalls::refuse(const trace::Free& call) {
  const ledger::Refusal refusal = memory_.refused_frees.add(
      memory_.live, call, memory_.present.site_of(call.call), memory_.present.time,
      [&](std::uint32_t group) { return memory_.accounts.group(group).key.site; });
  if (refusal.what == FreedWhat::kLiveMemory) {
    memory_.accounts.count_failure(memory_.accounts.group(refusal.group).key);
  }
}

std::uint32_t MemoryCalls::add(const trace::Block& block, Phase phase) {
  PresentRecord& present = memory_.present;
  if (memory_.framework.remove_block(block.address, present.time)) {
    ++memory_.statistics.live_address_allocated;
    memory_.begin_next_moment();
  }
  PrivatePools::Capture* const capture =
      memory_.framework.pools().capture_of(block, present.writer);
  std::uint32_t segment = memory_.framework.find_segment(block.address);
  if (segment == 0) {
    segment = memory_.discover_segment(block.address, capture);
  } else if (capture != nullptr) {
    memory_.framework.join_pool(segment, *capture, present.time);
  }
  const std::uint32_t group = memory_.accounts.group_of({.site = {.stack = present.stack},
                                                         .kind = Kind::kBlock,
                                                         .device = block.device,
                                                         .phase = phase});
  memory_.framework.add_block(block, group, segment, present.time);
  return group;
}

void MemoryCalls::remove(const trace::Block& block) {
  memory_.count_collected(block.record,
                          [&] { return memory_.framework.find_block(block.address); });
  if (!memory_.framework.remove_block(block.address, memory_.present.time)) {
    ++memory_.statistics.unknown_frees;
  }
}

void MemoryCalls::apply(const trace::ContextCall& call) {
  const CallSite site = memory_.present.site_of(call.call);
  if (memory_.contexts.open(call, site)) {
    memory_.devices.state(memory_.contexts.device_of(call)).total().curves.add_context();
  }
  const EndedBy reason = ledger::end_of(call);
  if (reason == EndedBy::kNothing) return;
  const auto ends = [&](const LiveAllocation& entry) {
    const GroupKey& key = memory_.accounts.group(entry.group).key;
    return memory_.contexts.ends_with(call, key.kind, key.device, key.context);
  };
  const std::vector<LiveAllocation> ended =
      memory_.live.end_all(ends, {reason, memory_.statistics.exit_seen, site});
  memory_.statistics.implicit_frees += ended.size();
  for (const LiveAllocation& entry : ended) memory_.ended(entry);
}

}  // namespace gpumemtrace::analyzer
