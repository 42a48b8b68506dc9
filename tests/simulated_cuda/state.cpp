// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/state.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "tests/simulated_cuda/pool_memory.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

constexpr std::uint64_t kLargestSmallBytes = std::uint64_t{1} << 20;

std::uint64_t take_large(Device* device, std::uint64_t bytes) {
  if (!charge(device, bytes)) return 0;
  const auto address = state().addresses.take(bytes, kGranuleBytes);
  if (!address) {
    refund(device, bytes);
    return 0;
  }
  return *address;
}

std::uint64_t take_low(Device* device, std::uint64_t bytes) {
  State& driver = state();
  const bool first = driver.backing.low_base() == 0;
  if (!driver.backing.open_low() || !charge(device, bytes)) return 0;
  if (first) driver.low_addresses.add(driver.backing.low_base(), Backing::kLowBytes);
  const auto address = driver.low_addresses.take(bytes, kGranuleBytes);
  if (!address) {
    refund(device, bytes);
    return 0;
  }
  return *address;
}

// Tells other processes and NVML how much of the device this process uses.
void publish(const Device& device) {
  Card::Process* const entry = state().card_entry;
  if (entry != nullptr) entry->devices[device.ordinal].bytes = device.used_bytes;
}

bool is_low(std::uint64_t address) { return address < (std::uint64_t{1} << 32); }

void give_large(Device* device, std::uint64_t address, std::uint64_t bytes, bool touched) {
  State& driver = state();
  if (touched) driver.backing.discard(address, bytes);
  (is_low(address) ? driver.low_addresses : driver.addresses).add(address, bytes);
  refund(device, bytes);
}

void give_foreign(std::uint64_t address, std::uint64_t bytes) {
  State& driver = state();
  driver.backing.map_own(address, bytes);
  driver.addresses.add(address, bytes);
}

}  // namespace

State& state() {
  static State* const only = [] {
    auto* created = new State;
    created->settings = read_settings();
    created->card = open_card(created->settings.card_path.c_str());
    return created;
  }();
  return *only;
}

Device* find_device(CUdevice ordinal) {
  State& driver = state();
  const bool known = ordinal >= 0 && static_cast<std::size_t>(ordinal) < driver.devices.size();
  return known ? driver.devices[static_cast<std::size_t>(ordinal)].get() : nullptr;
}

std::uint64_t bytes_of_others(const Device& device) {
  return state().settings.other_bytes + bytes_of_others(*state().card, device.ordinal);
}

bool charge(Device* device, std::uint64_t bytes) {
  const auto has_room = [&] {
    return device->used_bytes + bytes + bytes_of_others(*device) <= device->capacity_bytes;
  };
  if (!has_room()) trim_all_pools(device, 0);
  if (!has_room()) return false;
  device->used_bytes += bytes;
  publish(*device);
  return true;
}

void refund(Device* device, std::uint64_t bytes) {
  device->used_bytes -= bytes;
  publish(*device);
}

std::uint64_t take_device_memory(Device* device, std::uint64_t bytes, bool low) {
  if (bytes > device->capacity_bytes) return 0;
  if (low) return take_low(device, round_up(bytes, kGranuleBytes));
  if (bytes > kLargestSmallBytes) return take_large(device, round_up(bytes, kGranuleBytes));
  const std::uint64_t occupied = round_up(bytes, kSmallAlignment);
  auto address = device->small.take(occupied, kSmallAlignment);
  if (!address) {
    const std::uint64_t chunk = take_large(device, kGranuleBytes);
    if (chunk == 0) return 0;
    device->chunks[chunk] = {};
    device->small.add(chunk, kGranuleBytes);
    address = device->small.take(occupied, kSmallAlignment);
  }
  std::prev(device->chunks.upper_bound(*address))->second.live_bytes += occupied;
  return *address;
}

void give_device_memory(Device* device, std::uint64_t address, std::uint64_t bytes, bool touched) {
  if (is_low(address) || bytes > kLargestSmallBytes) {
    give_large(device, address, round_up(bytes, kGranuleBytes), touched);
    return;
  }
  const std::uint64_t occupied = round_up(bytes, kSmallAlignment);
  device->small.add(address, occupied);
  const auto chunk = std::prev(device->chunks.upper_bound(address));
  chunk->second.live_bytes -= occupied;
  chunk->second.touched = chunk->second.touched || touched;
  if (chunk->second.live_bytes != 0) return;
  device->small.take_at(chunk->first, kGranuleBytes);
  give_large(device, chunk->first, kGranuleBytes, chunk->second.touched);
  device->chunks.erase(chunk);
}

Allocation& remember(Allocation allocation) {
  State& driver = state();
  allocation.id = driver.next_id();
  return driver.allocations[allocation.address] = std::move(allocation);
}

Allocation* find_allocation(std::uint64_t address) {
  State& driver = state();
  auto next = driver.allocations.upper_bound(address);
  if (next == driver.allocations.begin()) return nullptr;
  Allocation& candidate = std::prev(next)->second;
  return address - candidate.address < candidate.bytes ? &candidate : nullptr;
}

Allocation* find_allocation_start(std::uint64_t address) {
  State& driver = state();
  const auto found = driver.allocations.find(address);
  return found == driver.allocations.end() ? nullptr : &found->second;
}

void release_allocation(std::uint64_t address) {
  State& driver = state();
  const Allocation allocation = driver.allocations.at(address);
  driver.allocations.erase(address);
  switch (allocation.kind) {
    case Kind::kDevice:
    case Kind::kArray:
      give_device_memory(allocation.device, address, allocation.occupied_bytes, allocation.touched);
      break;
    case Kind::kPool:
      give_pool_memory(allocation.pool, address, allocation.occupied_bytes);
      break;
    case Kind::kGraph:
      allocation.device->graph_used_bytes -= allocation.occupied_bytes;
      break;
    case Kind::kManaged:
    case Kind::kPinned:
      munmap(reinterpret_cast<void*>(address), allocation.occupied_bytes);
      break;
    case Kind::kIpc:
    case Kind::kPoolImport:
    case Kind::kExternal:
      give_foreign(address / kGranuleBytes * kGranuleBytes, allocation.occupied_bytes);
      break;
    case Kind::kRegistered:
    case Kind::kMapping:
      break;
  }
}

std::byte* resolve(std::uint64_t address, std::uint64_t bytes) {
  State& driver = state();
  if (!driver.backing.contains(address)) {
    const Allocation* known = find_allocation(address);
    const bool beyond = known != nullptr && address + bytes > known->address + known->bytes;
    return beyond || address == 0 ? nullptr : reinterpret_cast<std::byte*>(address);
  }
  std::uint64_t covered = 0;
  do {
    Allocation* part = find_allocation(address + covered);
    if (part == nullptr || !part->accessible) return nullptr;
    if (covered != 0 && part->kind != Kind::kMapping) return nullptr;
    part->touched = true;
    covered = part->address + part->bytes - address;
  } while (covered < bytes);
  return driver.backing.host(address);
}

std::byte* resolve_device(std::uint64_t address, std::uint64_t bytes) {
  return find_allocation(address) == nullptr ? nullptr : resolve(address, bytes);
}

}  // namespace gpumemtrace::cuda_abi::simulated
