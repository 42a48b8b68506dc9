// SPDX-License-Identifier: Apache-2.0
// The recorder's readers of a loaded file: they read the unwind tables, the rules and expressions
// in them, and the notes with the build-id.
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "preload/loader/loaded_module.hpp"
#include "preload/native/frame_registers.hpp"
#include "preload/native/frame_rules.hpp"
#include "tests/fuzz/checks.hpp"

namespace {

using namespace gpumemtrace::preload;
using namespace gpumemtrace::preload::native;
using gpumemtrace::tests::require;

constexpr std::size_t kAddresses = 32;

// Takes one step up from a frame whose registers all point to readable words.
void step_once(const FrameRules& rules) {
  std::uint64_t words[64] = {};
  Registers registers;
  for (std::size_t i = 0; i < kRegisters; ++i) {
    registers.set(i, reinterpret_cast<std::uintptr_t>(&words[i]));
  }
  StackMemory memory(registers.values[kRsp]);
  step(rules, registers, memory);
}

// Looks up the functions that the search table names, at their first instructions.
void walk_tables(const UnwindTables& tables) {
  constexpr std::size_t kTableHeaderBytes = 12;
  const auto base = reinterpret_cast<std::uintptr_t>(tables.header);
  for (std::size_t i = 0; i < kAddresses; ++i) {
    const std::size_t pair = kTableHeaderBytes + 8 * (i / 4);
    std::int32_t distance = 0;
    if (static_cast<std::size_t>(tables.end - tables.header) < pair + sizeof distance) return;
    std::memcpy(&distance, tables.header + pair, sizeof distance);
    const std::uint64_t address =
        base + static_cast<std::uint64_t>(std::int64_t{distance}) + i % 4 * 5;
    FrameDescription description;
    FrameRules rules;
    if (!find_frame_description(tables, address, description)) continue;
    require(description.begin <= address && address < description.end,
            "the entry is the address's");
    if (rules_at(description, address, rules)) step_once(rules);
  }
}

// The input has program headers, as many as its first byte says, then what they describe.
void read_notes(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  std::vector<ElfW(Phdr)> headers(
      std::min<std::size_t>(data[0] % 8, (size - 1) / sizeof(ElfW(Phdr))));
  if (!headers.empty()) std::memcpy(headers.data(), data + 1, headers.size() * sizeof headers[0]);
  const auto base = reinterpret_cast<std::uintptr_t>(data);
  const BuildId id = find_build_id(base, headers.data(), headers.size());
  (void)id;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  if (data[0] == 'n') {
    read_notes(data + 1, size - 1);
    return 0;
  }
  // The second byte gives the header's offset in the segment; the frame entries stand before it.
  const std::size_t bytes = size - 2;
  std::vector<std::uint8_t> segment(data + 2, data + size);
  const std::size_t header = bytes == 0 ? 0 : std::min<std::size_t>(data[1] * 4u, bytes);
  walk_tables({segment.data() + header, segment.data(), segment.data() + bytes});
  return 0;
}
