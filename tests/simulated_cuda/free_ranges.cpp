// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/free_ranges.hpp"

#include <iterator>

namespace gpumemtrace::cuda_abi::simulated {

void FreeRanges::insert(std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0) return;
  bytes_by_address_[address] = bytes;
  by_size_.insert({bytes, address});
}

void FreeRanges::erase(std::map<std::uint64_t, std::uint64_t>::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  bytes_by_address_.erase(hole);
}

bool FreeRanges::joins_at(std::uint64_t address) const {
  return boundary_ == 0 || address % boundary_ != 0;
}

void FreeRanges::add(std::uint64_t address, std::uint64_t bytes) {
  auto next = bytes_by_address_.lower_bound(address);
  if (next != bytes_by_address_.end() && next->first == address + bytes && joins_at(next->first)) {
    bytes += next->second;
    auto merged = next++;
    erase(merged);
  }
  if (next != bytes_by_address_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == address && joins_at(address)) {
      address = previous->first;
      bytes += previous->second;
      erase(previous);
    }
  }
  insert(address, bytes);
}

std::optional<std::uint64_t> FreeRanges::take(std::uint64_t bytes, std::uint64_t alignment) {
  for (auto hole = by_size_.lower_bound({bytes, 0}); hole != by_size_.end(); ++hole) {
    const auto [hole_bytes, hole_address] = *hole;
    const std::uint64_t address = (hole_address + alignment - 1) / alignment * alignment;
    if (address + bytes > hole_address + hole_bytes) continue;
    take_at(address, bytes);
    return address;
  }
  return std::nullopt;
}

bool FreeRanges::take_at(std::uint64_t address, std::uint64_t bytes) {
  auto hole = bytes_by_address_.upper_bound(address);
  if (hole == bytes_by_address_.begin()) return false;
  --hole;
  const auto [hole_address, hole_bytes] = *hole;
  if (address + bytes > hole_address + hole_bytes) return false;
  erase(hole);
  insert(hole_address, address - hole_address);
  insert(address + bytes, hole_address + hole_bytes - (address + bytes));
  return true;
}

}  // namespace gpumemtrace::cuda_abi::simulated
