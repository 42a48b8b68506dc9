// The general way from a frame to its caller: all rules and expressions of DWARF that compilers and
// libc emit for x86-64.
#pragma once

#include <cstdint>

#include "preload/frame_rules.hpp"
#include "preload/stack_memory.hpp"

namespace gpumemtrace::preload::native {

// The registers of one frame, as far as they are known.
struct Registers {
  std::uint64_t values[kRegisters] = {};
  std::uint32_t known = 0;  // bit n: register n

  bool has(std::uint64_t number) const noexcept {
    return number < kRegisters && (known >> number & 1) != 0;
  }
  void set(std::size_t number, std::uint64_t value) noexcept {
    values[number] = value;
    known |= 1u << number;
  }
  void forget(std::size_t number) noexcept { known &= ~(1u << number); }
};

enum class Step {
  kDone,
  kEnd,               // there is no caller, or the rules lead nowhere
  kRegisterNotKnown,  // with more registers the step could be made
};

// Turns the registers of a frame into its caller's. The return address is in kReturnAddress.
// The calling thread's own stack only.
Step step(const FrameRules& rules, Registers& registers, StackMemory& memory) noexcept;

}  // namespace gpumemtrace::preload::native
