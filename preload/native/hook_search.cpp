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
constexpr std::size_t kNearestFrames = 16;

// True for the library, or the test program, that this code is linked into.
bool has_hooks(const LoadedModule& module) noexcept {
  const auto own_code = reinterpret_cast<std::uintptr_t>(&state_of_hook);
  return own_code >= module.begin && own_code < module.end;
}

}  // namespace

// Follows the stack's frames from the function that follow_frames() is inlined into. Calls `visit`
// with each frame's module and the known registers of the frame and of its caller's frame, until
// `visit` returns false, or until the frames cannot be followed further.
#if defined(__x86_64__)

template <class Visit>
[[gnu::always_inline]] inline void follow_frames(std::size_t most, Visit&& visit) noexcept {
  Registers registers = registers_here();
  StackMemory memory(registers.values[kRsp]);
  for (std::size_t i = 0; i < most; ++i) {
    const Registers before = registers;
    const std::uint64_t address = registers.values[kReturnAddress] - 1;
    LoadedModule module;
    FrameRules rules;
    if (!find_module(address, module) || !find_rules(module.unwind, address, rules)) return;
    if (step(rules, registers, memory) != Step::kDone) return;
    // A signal frame gives the address of the interrupted instruction itself. All look-ups subtract
    // 1, as from a return address, so 1 is added.
    if (rules.signal_frame) ++registers.values[kReturnAddress];
    if (!visit(module, before, registers)) return;
  }
}

HookState state_of_hook(std::uint64_t frame_pointer) noexcept {
  HookState state = HookState::kUnknown;
  follow_frames(kMostFrames, [&](const LoadedModule& module, const Registers& frame,
                                 const Registers& above) noexcept {
    const bool points_there = frame.has(kRbp) && frame.values[kRbp] == frame_pointer;
    if (frame.values[kRsp] > frame_pointer || frame_pointer >= above.values[kRsp]) return true;
    state = points_there && has_hooks(module) ? HookState::kUnderWay : HookState::kLeft;
    return false;
  });
  return state;
}

#else

// Follows frame records: the caller's frame pointer and the return address (AAPCS64, 6.4.6).
// `visit` gets the frame pointers of the frame and of its caller's frame.
template <class Visit>
[[gnu::always_inline]] inline void follow_frames(std::size_t most, Visit&& visit) noexcept {
  constexpr std::uint64_t kWord = 8;
  // Higher bits of a return address are a signature (pointer authentication).
  constexpr std::uint64_t kAddressBits = (std::uint64_t{1} << 48) - 1;
  std::uint64_t record = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  StackMemory memory(record);
  for (std::size_t i = 0; i < most; ++i) {
    std::uint64_t above = 0;
    std::uint64_t return_address = 0;
    if (!memory.read(record, above) || !memory.read(record + kWord, return_address)) return;
    LoadedModule module;
    if (!find_module((return_address & kAddressBits) - 1, module)) return;
    if (!visit(module, record, above)) return;
    record = above;
  }
}

HookState state_of_hook(std::uint64_t frame_pointer) noexcept {
  HookState state = HookState::kUnknown;
  follow_frames(kMostFrames,
                [&](const LoadedModule& module, std::uint64_t frame, std::uint64_t above) noexcept {
                  if (above == frame_pointer && has_hooks(module)) {
                    state = HookState::kUnderWay;
                  } else if (frame < frame_pointer && above >= frame_pointer) {
                    state = HookState::kLeft;
                  }
                  return state == HookState::kUnknown;
                });
  return state;
}

#endif

bool is_called_from(std::uint64_t module_begin) noexcept {
  bool is_found = false;
  follow_frames(kNearestFrames, [&](const LoadedModule& module, const auto&, const auto&) noexcept {
    is_found = module.begin == module_begin;
    return !is_found;
  });
  return is_found;
}

}  // namespace gpumemtrace::preload::native
