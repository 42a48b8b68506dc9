// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/virtual_memory.hpp"

namespace gpumemtrace::analyzer {

bool VirtualMemory::create(const LiveAllocation& entry) {
  std::uint32_t index;
  if (unused_.empty()) {
    index = static_cast<std::uint32_t>(physical_.size());
    physical_.emplace_back();
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  physical_[index] = {entry, 1, 0, true};
  accounts_.add(entry.group, entry.bytes, entry.born);
  const auto [found, added] = handles_.try_emplace(entry.address, index);
  if (!added) {
    // The driver reuses a handle's number only when its references are gone: a release was missed.
    const std::uint32_t older = found->second;
    physical_[older].references = 0;
    found->second = index;
    free_if_unused(older);
  }
  return added;
}

bool VirtualMemory::retain(std::uint64_t handle, std::uint64_t address) {
  auto found = handles_.find(handle);
  if (found == handles_.end()) {
    const Mapping* mapping = find_mapping(address);
    if (mapping == nullptr) return false;
    found = handles_.emplace(handle, mapping->physical).first;
  }
  ++physical_[found->second].references;
  return true;
}

bool VirtualMemory::release(std::uint64_t handle, Removed& freed) {
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return false;
  const std::uint32_t index = found->second;
  if (--physical_[index].references != 0) return true;
  handles_.erase(found);
  if (free_if_unused(index)) freed.push_back(physical_[index].entry);
  return true;
}

bool VirtualMemory::free_if_unused(std::uint32_t index) {
  Physical& physical = physical_[index];
  if (!physical.live || physical.references != 0 || physical.mappings != 0) return false;
  accounts_.remove(physical.entry, Accounts::End::kFreed);
  physical.live = false;
  unused_.push_back(index);
  return true;
}

void VirtualMemory::reserve(std::uint64_t address, std::uint64_t bytes) {
  reservations_[address] = {bytes, 0};
}

VirtualMemory::Mapping* VirtualMemory::map(std::uint64_t address, std::uint64_t bytes,
                                           std::uint64_t handle, std::uint64_t now) {
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return nullptr;
  Physical& physical = physical_[found->second];
  if (physical.entry.bytes == 0) {
    accounts_.grow(physical.entry, bytes, now);
    physical.entry.bytes = bytes;
  }
  GroupKey key = accounts_.group(physical.entry.group).key;
  key.kind = Kind::kMapping;
  std::uint64_t begin = 0;
  const Reservation* reservation = find_reservation(address, begin);
  const std::uint32_t segment = reservation == nullptr ? 0 : reservation->segment;
  const Mapping mapping{{address, bytes, now, accounts_.group_of(key), segment}, found->second};
  const auto [position, added] = mappings_.try_emplace(address, mapping);
  if (!added) return nullptr;
  ++physical.mappings;
  if (segment != 0) physical.entry.link = segment;
  accounts_.add(mapping.entry.group, bytes, now);
  return &position->second;
}

VirtualMemory::Removed VirtualMemory::unmap(std::uint64_t address, std::uint64_t bytes,
                                            Removed& freed) {
  Removed removed;
  for (auto position = mappings_.lower_bound(address);
       position != mappings_.end() && position->first - address < bytes;) {
    const Mapping mapping = position->second;
    position = mappings_.erase(position);
    accounts_.remove(mapping.entry, Accounts::End::kFreed);
    removed.push_back(mapping.entry);
    Physical& physical = physical_[mapping.physical];
    --physical.mappings;
    const LiveAllocation entry = physical.entry;
    if (free_if_unused(mapping.physical)) freed.push_back(entry);
  }
  return removed;
}

VirtualMemory::Mapping* VirtualMemory::find_mapping(std::uint64_t address) {
  auto position = mappings_.upper_bound(address);
  if (position == mappings_.begin()) return nullptr;
  --position;
  const LiveAllocation& entry = position->second.entry;
  return address - entry.address < entry.bytes ? &position->second : nullptr;
}

VirtualMemory::Reservation* VirtualMemory::find_reservation(std::uint64_t address,
                                                            std::uint64_t& begin) {
  auto position = reservations_.upper_bound(address);
  if (position == reservations_.begin()) return nullptr;
  --position;
  begin = position->first;
  return address - begin < position->second.bytes ? &position->second : nullptr;
}

void VirtualMemory::attach_segment(
    std::uint64_t begin, Reservation& reservation, std::uint32_t segment,
    const std::function<void(const LiveAllocation&)>& visit_mapping) {
  reservation.segment = segment;
  for (auto position = mappings_.lower_bound(begin);
       position != mappings_.end() && position->first - begin < reservation.bytes; ++position) {
    Mapping& mapping = position->second;
    mapping.entry.link = segment;
    physical_[mapping.physical].entry.link = segment;
    visit_mapping(mapping.entry);
  }
}

}  // namespace gpumemtrace::analyzer
