// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/copies/transfers.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Memory that a call named as host memory counts as host memory, even if it is not known to be
// pinned.
bool is_host(const Location& end) {
  return end.memory == MemoryClass::kPageable || end.memory == MemoryClass::kPinned ||
         (end.memory == MemoryClass::kUnknown && end.device == kHostDevice);
}

// Managed memory counts as device memory: the present place of its pages is not known.
bool is_device(const Location& end) {
  return end.memory == MemoryClass::kDevice || end.memory == MemoryClass::kArray ||
         end.memory == MemoryClass::kManaged;
}

}  // namespace

Direction direction_of(const Location& source, const Location& destination) {
  if (is_host(source) && is_host(destination)) return Direction::kHostToHost;
  if (is_host(source) && is_device(destination)) return Direction::kHostToDevice;
  if (is_device(source) && is_host(destination)) return Direction::kDeviceToHost;
  if (is_device(source) && is_device(destination)) {
    const bool across =
        source.device != destination.device && source.device >= 0 && destination.device >= 0;
    return across ? Direction::kPeer : Direction::kDeviceToDevice;
  }
  return Direction::kUnknown;
}

std::uint32_t Transfers::find_or_add(const TransferKey& key) {
  const auto next = static_cast<std::uint32_t>(rows_.size());
  const auto [found, added] = index_.try_emplace(key, next);
  if (added) {
    rows_.emplace_back();
    rows_.back().key = key;
  }
  return found->second;
}

}  // namespace gpumemtrace::analyzer
