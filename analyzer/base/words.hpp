// SPDX-License-Identifier: Apache-2.0
// Closed words that the model counts by and the report shows: each enumeration with its names,
// once. Names are a contract (docs/report.schema.json).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// A name as it is read: "optimizer state".
[[nodiscard]] inline std::string in_words(std::string_view name) {
  std::string words(name);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

// Of a copy, between which sides it went.
enum class Direction : std::uint8_t {
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kPeer,
  kHostToHost,
  kUnknown,
};

constexpr std::string_view name_of(Direction direction) {
  switch (direction) {
    case Direction::kHostToDevice:
      return "host_to_device";
    case Direction::kDeviceToHost:
      return "device_to_host";
    case Direction::kDeviceToDevice:
      return "device_to_device";
    case Direction::kPeer:
      return "peer";
    case Direction::kHostToHost:
      return "host_to_host";
    case Direction::kUnknown:
      break;
  }
  return "unknown";
}
constexpr std::size_t word_count(Direction) { return 6; }

using trace::FreedWhat;

constexpr std::string_view name_of(FreedWhat what) {
  switch (what) {
    case FreedWhat::kLiveMemory:
      return "live_memory";
    case FreedWhat::kFreedBefore:
      return "freed_before";
    case FreedWhat::kEndedBefore:
      return "ended_before";
    case FreedWhat::kInsideLive:
      return "inside_live_memory";
    case FreedWhat::kNothingKnown:
      break;
  }
  return "nothing_known";
}
constexpr std::size_t word_count(FreedWhat) { return 5; }

// What a program opened or created and must close or destroy by a handle.
enum class HandleKind : std::uint8_t {
  kVmm,
  kVmmHost,
  kImportedVmm,
  kIpc,
  kExternal,
  kPool,
  kGraphExecutable,  // only those that allocate memory
};

constexpr std::string_view name_of(HandleKind kind) {
  switch (kind) {
    case HandleKind::kVmm:
      return "vmm";
    case HandleKind::kVmmHost:
      return "vmm_host";
    case HandleKind::kImportedVmm:
      return "imported_vmm";
    case HandleKind::kIpc:
      return "ipc";
    case HandleKind::kExternal:
      return "external";
    case HandleKind::kPool:
      return "pool";
    case HandleKind::kGraphExecutable:
      break;
  }
  return "graph_executable";
}
constexpr std::size_t word_count(HandleKind) { return 7; }

// What became of a request that found too little memory.
enum class OomOutcome : std::uint8_t { kUnknown, kRaised, kRecovered };

constexpr std::string_view name_of(OomOutcome outcome) {
  switch (outcome) {
    case OomOutcome::kRaised:
      return "raised";
    case OomOutcome::kRecovered:
      return "recovered";
    case OomOutcome::kUnknown:
      break;
  }
  return "unknown";
}
constexpr std::size_t word_count(OomOutcome) { return 3; }

}  // namespace gpumemtrace::analyzer
