// SPDX-License-Identifier: Apache-2.0
#include "preload/native/hook_search.hpp"

#include <cstddef>

#include "preload/loader/loaded_module.hpp"
#include "preload/native/stack_memory.hpp"

#if defined(__x86_64__)
#include "preload/native/frame_registers.hpp"
#endif

namespace gpumemtrace::preload::native {
namespace {

constexpr std::size_t kMostFrames = 100'000;

// True for the library, or the test, that this is linked into.
bool has_hooks(const LoadedModule& module) noexcept {
  const auto own_code = reinterpret_cast<std::uintptr_t>(&state_of_hook);
  return own_code >= module.begin && own_code < module.end;
}

}  // namespace

#if defined(__x86_64__)

HookState state_of_hook(std::uint64_t frame_pointer) noexcept {
  Registers registers = registers_here();
  StackMemory memory(registers.values[kRsp]);
  for (std::size_t i = 0; i < kMostFrames; ++i) {
    const std::uint64_t begin = registers.values[kRsp];
    const bool points_there = registers.has(kRbp) && registers.values[kRbp] == frame_pointer;
    const std::uint64_t address = registers.values[kReturnAddress] - 1;
    LoadedModule module;
    FrameRules rules;
    if (!find_module(address, module) || !find_rules(module.unwind, address, rules)) break;
    if (step(rules, registers, memory) != Step::kDone) break;
    // What a signal interrupted is no return address: its own instruction counts.
    if (rules.signal_frame) ++registers.values[kReturnAddress];
    if (begin > frame_pointer || frame_pointer >= registers.values[kRsp]) continue;
    return points_there && has_hooks(module) ? HookState::kUnderWay : HookState::kLeft;
  }
  return HookState::kUnknown;
}

#else

// By frame records: the caller's frame pointer and the address to return to (AAPCS64, 6.4.6).
HookState state_of_hook(std::uint64_t frame_pointer) noexcept {
  constexpr std::uint64_t kWord = 8;
  constexpr std::uint64_t kAddressBits = (std::uint64_t{1} << 47) - 1;  // above: a signature
  auto record = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  StackMemory memory(record);
  for (std::size_t i = 0; i < kMostFrames; ++i) {
    std::uint64_t above = 0;
    std::uint64_t return_address = 0;
    if (!memory.read(record, above) || !memory.read(record + kWord, return_address)) break;
    LoadedModule module;
    if (!find_module((return_address & kAddressBits) - 1, module)) break;
    if (above == frame_pointer && has_hooks(module)) return HookState::kUnderWay;
    if (record < frame_pointer && above >= frame_pointer) return HookState::kLeft;
    record = above;
  }
  return HookState::kUnknown;
}

#endif

}  // namespace gpumemtrace::preload::native
