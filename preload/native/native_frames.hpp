// SPDX-License-Identifier: Apache-2.0
// The calling thread's native frames, above a hook.
//
// x86-64: by the unwind tables of the loaded files (.eh_frame), so that code without frame
// pointers, signal frames, realigned stacks and PLT entries are followed. The rule for a return
// address is computed from the tables once and kept; a frame then costs one look-up and two loads.
// Code without tables (JIT) is followed by its frame pointer if that leads to a plausible return
// address. 64-bit Arm: by frame pointers.
//
// - Any thread, signal handlers too. No lock, no allocation; no system call in the steady state.
// - Reads only memory that is known to be there; wrong tables end a walk, they never crash it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/loader/loaded_module.hpp"

namespace gpumemtrace::preload::native {

inline constexpr std::size_t kMaxFrames = 200;

// A function's caller at the time of the call: the return address, and the caller's registers.
struct Caller {
  std::uint64_t return_address;
  std::uint64_t stack_pointer;
  std::uint64_t frame_pointer;
};

// Returns the caller of the function that this one is inlined into. The call makes the compiler
// give that function a frame pointer.
[[gnu::always_inline]] inline Caller caller_of_this_function() noexcept {
  const auto* frame = static_cast<const std::uint64_t*>(__builtin_frame_address(0));
  return {reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)),
          reinterpret_cast<std::uintptr_t>(frame + 2), *frame};
}

struct Walk {
  const std::uint64_t* addresses =
      nullptr;  // return addresses, innermost first, the caller's first
  std::size_t count = 0;
  std::uint64_t hash = 0;  // hash of the addresses and of the modules that they lie in
  bool cut = false;        // there are frames beyond the capacity
};

// Returns a number for a loaded file, the same each time that the same file is loaded at the same
// address, at most kMaxModuleSerial; 0 if no number is left. Called when a rule is computed, on any
// thread.
using SerialOf = std::uint32_t (*)(const LoadedModule& module) noexcept;

// Called before the first walk of a process. False if there is no memory for the rules.
[[nodiscard]] bool prepare(SerialOf serial_of) noexcept;

class UnwindCache;  // unwind_cache.hpp
struct RememberedWalk;

// Returns the remembered walk that is expected after the thread's last walks, if the stack has the
// same frames; else nullptr, and read_frames() is needed. `memory` is the thread's own.
[[nodiscard]] RememberedWalk* read_expected(const Caller& caller, std::size_t capacity,
                                            UnwindCache& memory) noexcept;

// Walks the stack from `caller` on, without a remembered walk. `out` has room for `capacity`
// addresses; `memory` is the thread's own, or nullptr. An interrupted instruction appears as its
// address + 1, so that address - 1 always lies in the right instruction.
Walk read_frames(const Caller& caller, std::uint64_t* out, std::size_t capacity,
                 UnwindCache* memory = nullptr) noexcept;

}  // namespace gpumemtrace::preload::native
