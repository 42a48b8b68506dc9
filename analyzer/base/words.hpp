// SPDX-License-Identifier: Apache-2.0
// Enumerations by which the model counts and whose names the report shows. names() lists the names
// of each, in the order of its values. The names are a contract (docs/report.schema.json).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

template <class Word>
concept HasNames = requires(Word word) {
  names(word);
};

template <HasNames Word>
constexpr std::string_view name_of(Word word) {
  constexpr auto kNames = names(Word());
  return kNames[static_cast<std::size_t>(word)];
}
template <HasNames Word>
constexpr std::size_t word_count(Word word) {
  return names(word).size();
}

// A name in reading form: "optimizer state" for optimizer_state.
[[nodiscard]] inline std::string in_words(std::string_view name) {
  std::string words(name);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

// The kinds of memory at the two sides of a copy.
enum class Direction : std::uint8_t {
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kPeer,
  kHostToHost,
  kUnknown,
};
constexpr auto names(Direction) {
  return std::to_array<std::string_view>(
      {"host_to_device", "device_to_host", "device_to_device", "peer", "host_to_host", "unknown"});
}

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

// The kinds of handles that a program opens or creates and must close or destroy.
enum class HandleKind : std::uint8_t {
  kVmm,
  kVmmHost,
  kImportedVmm,
  kIpc,
  kExternal,
  kPool,
  kGraphExecutable,  // executables of CUDA graphs that allocate memory; no others are counted
};
constexpr auto names(HandleKind) {
  return std::to_array<std::string_view>(
      {"vmm", "vmm_host", "imported_vmm", "ipc", "external", "pool", "graph_executable"});
}

// The outcome of a request that found too little memory.
enum class OomOutcome : std::uint8_t { kUnknown, kRaised, kRecovered };
constexpr auto names(OomOutcome) {
  return std::to_array<std::string_view>({"unknown", "raised", "recovered"});
}

}  // namespace gpumemtrace::analyzer
