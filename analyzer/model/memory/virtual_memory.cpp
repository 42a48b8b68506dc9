// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/virtual_memory.hpp"

namespace gpumemtrace::analyzer {

bool VirtualMemory::create(const LiveAllocation& entry) {
  accounts_.add(entry.group, entry.bytes, entry.born);
  Live::Physical* const lost = live_.create(entry);
  if (lost == nullptr) return true;
  Removed freed;
  end_if_unused(*lost, freed);
  return false;
}

bool VirtualMemory::release(std::uint64_t handle, Removed& freed) {
  Live::Physical* const memory = live_.release(handle);
  if (memory == nullptr) return false;
  end_if_unused(*memory, freed);
  return true;
}

void VirtualMemory::end_if_unused(Live::Physical& memory, Removed& freed) {
  if (!memory.is_unused()) return;
  accounts_.remove(memory.entry, Accounts::End::kFreed);
  freed.push_back(memory.entry);
  live_.end(memory);
}

void VirtualMemory::join_segment(LiveAllocation& physical, std::uint32_t segment) {
  if (physical.link == 0) accounts_.move_to_segments(physical);
  physical.link = segment;
}

const VirtualMemory::Mapping* VirtualMemory::map(std::uint64_t address, std::uint64_t bytes,
                                                 std::uint64_t handle, std::uint64_t now) {
  Live::Physical* const memory = live_.find(handle);
  if (memory == nullptr) return nullptr;
  if (memory->entry.bytes == 0) {
    accounts_.grow(memory->entry, bytes, now);
    memory->entry.bytes = bytes;
  }
  GroupKey key = accounts_.group(memory->entry.group).key;
  key.kind = Kind::kMapping;
  const Reservation* const reservation = find_reservation(address);
  const std::uint32_t segment = reservation == nullptr ? 0 : reservation->tag;
  const LiveAllocation entry{address, bytes, now, accounts_.group_of(key), segment};
  const Mapping* const mapping = live_.map(*memory, entry);
  if (mapping == nullptr) return nullptr;
  if (segment != 0) join_segment(memory->entry, segment);
  accounts_.add(entry.group, bytes, now);
  return mapping;
}

VirtualMemory::Removed VirtualMemory::unmap(std::uint64_t address, std::uint64_t bytes,
                                            Removed& freed) {
  Removed removed;
  live_.unmap(address, bytes, [&](const Mapping& mapping, Live::Physical& memory) {
    accounts_.remove(mapping.entry, Accounts::End::kFreed);
    removed.push_back(mapping.entry);
    end_if_unused(memory, freed);
  });
  return removed;
}

}  // namespace gpumemtrace::analyzer
