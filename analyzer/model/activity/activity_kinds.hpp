// SPDX-License-Identifier: Apache-2.0
// CUPTI's enumerations (cupti_activity.h) in our words.
#pragma once

#include <cstdint>

#include "analyzer/model/copies/transfers.hpp"

namespace gpumemtrace::analyzer {

// One number for a correlation of a library; never 0.
constexpr std::uint64_t activity_key(std::uint16_t library, std::uint32_t correlation) {
  return ((std::uint64_t{library} + 1) << 32) | correlation;
}

// CUpti_ActivityMemoryKind.
constexpr MemoryClass class_of_activity(std::uint32_t memory_kind) {
  switch (memory_kind) {
    case 1:
      return MemoryClass::kPageable;
    case 2:
      return MemoryClass::kPinned;
    case 3:
    case 6:  // a global of a module
      return MemoryClass::kDevice;
    case 4:
      return MemoryClass::kArray;
    case 5:
    case 7:  // a managed global
      return MemoryClass::kManaged;
    default:
      return MemoryClass::kUnknown;
  }
}

// CUpti_ActivityMemcpyKind.
constexpr Direction direction_of_activity(std::uint32_t copy_kind) {
  switch (copy_kind) {
    case 1:  // to device memory
    case 3:  // to an array
      return Direction::kHostToDevice;
    case 2:
    case 4:
      return Direction::kDeviceToHost;
    case 5:
    case 6:
    case 7:
    case 8:
      return Direction::kDeviceToDevice;
    case 9:
      return Direction::kHostToHost;
    case 10:
      return Direction::kPeer;
    default:
      return Direction::kUnknown;
  }
}

}  // namespace gpumemtrace::analyzer
