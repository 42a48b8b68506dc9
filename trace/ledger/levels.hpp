// SPDX-License-Identifier: Apache-2.0
// Levels and kinds of memory, and the fixed words by which the report calls them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// The levels of memory. kMapping is used only inside the model: it is address space of the process,
// which no report counts as memory.
enum class Level : std::uint8_t {
  kDriver,
  kPool,
  kManaged,
  kHost,
  kFramework,
  kImported,
  kMapping,
};

enum class Kind : std::uint8_t {
  kDevice,
  kPitched,
  kArray,
  kVmm,
  kGraph,
  kStreamOrdered,
  kManaged,
  kPinned,
  kRegistered,
  kVmmHost,
  kBlock,
  kIpc,
  kImportedVmm,
  kExternal,
  kMapping,
};

struct KindName {
  Kind kind;
  Level level;
  std::string_view name;
};

inline constexpr std::array kKindNames = {
    KindName{Kind::kDevice, Level::kDriver, "device"},
    KindName{Kind::kPitched, Level::kDriver, "pitched"},
    KindName{Kind::kArray, Level::kDriver, "array"},
    KindName{Kind::kVmm, Level::kDriver, "vmm"},
    KindName{Kind::kGraph, Level::kDriver, "graph"},
    KindName{Kind::kStreamOrdered, Level::kPool, "stream_ordered"},
    KindName{Kind::kManaged, Level::kManaged, "managed"},
    KindName{Kind::kPinned, Level::kHost, "pinned"},
    KindName{Kind::kRegistered, Level::kHost, "registered"},
    KindName{Kind::kVmmHost, Level::kHost, "vmm_host"},
    KindName{Kind::kBlock, Level::kFramework, "block"},
    KindName{Kind::kIpc, Level::kImported, "ipc"},
    KindName{Kind::kImportedVmm, Level::kImported, "vmm"},
    KindName{Kind::kExternal, Level::kImported, "external"},
    KindName{Kind::kMapping, Level::kMapping, "mapping"},
};

constexpr const KindName& describe(Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }
constexpr Level level_of(Kind kind) { return describe(kind).level; }
constexpr std::string_view name_of(Kind kind) { return describe(kind).name; }

constexpr std::string_view name_of(Level level) {
  constexpr std::array<std::string_view, 7> kNames = {"driver",    "pool",     "managed", "host",
                                                      "framework", "imported", "mapping"};
  return kNames[static_cast<std::size_t>(level)];
}

static_assert([] {
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    if (static_cast<std::size_t>(kKindNames[i].kind) != i) return false;
  }
  return true;
}());

// True for arrays, which have handles instead of addresses, as physical memory has.
[[nodiscard]] constexpr bool is_array(trace::MemoryKind memory) {
  return memory == trace::MemoryKind::kArray || memory == trace::MemoryKind::kMipmappedArray;
}
[[nodiscard]] constexpr bool is_physical(trace::MemoryKind memory) {
  return memory == trace::MemoryKind::kPhysical || memory == trace::MemoryKind::kPhysicalHost;
}

// True for a framework's block on a GPU; other blocks are no device memory of the process.
[[nodiscard]] constexpr bool is_gpu_block(const trace::Block& block) {
  return block.device_type == trace::kCudaDeviceType && block.address != 0;
}

// The kind that an allocation by the driver counts as. MemoryKind::kUnknown counts as device
// memory.
constexpr Kind kind_of(trace::MemoryKind memory) {
  switch (memory) {
    case trace::MemoryKind::kPitched:
      return Kind::kPitched;
    case trace::MemoryKind::kManaged:
      return Kind::kManaged;
    case trace::MemoryKind::kStreamOrdered:
      return Kind::kStreamOrdered;
    case trace::MemoryKind::kPinned:
      return Kind::kPinned;
    case trace::MemoryKind::kRegistered:
      return Kind::kRegistered;
    case trace::MemoryKind::kArray:
    case trace::MemoryKind::kMipmappedArray:
      return Kind::kArray;
    case trace::MemoryKind::kPhysical:
      return Kind::kVmm;
    case trace::MemoryKind::kPhysicalHost:
      return Kind::kVmmHost;
    case trace::MemoryKind::kUnknown:
    case trace::MemoryKind::kDevice:
      break;
  }
  return Kind::kDevice;
}

// Special device ordinals of the model: host memory has no device, and the device of an unknown
// context is not known.
inline constexpr std::int32_t kHostDevice = -1;
inline constexpr std::int32_t kUnknownDevice = -2;

}  // namespace gpumemtrace::ledger
