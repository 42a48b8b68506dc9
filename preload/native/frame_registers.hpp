// SPDX-License-Identifier: Apache-2.0
// The general way from a frame to its caller: all rules and expressions of DWARF that compilers and
// libc emit for x86-64.
#pragma once

#include <cstdint>

#include "preload/native/frame_rules.hpp"
#include "preload/native/stack_memory.hpp"

namespace gpumemtrace::preload::native {

// The registers of one frame, as far as they are known.
struct Registers {
  std::uint64_t values[kRegisters] = {};
  std::uint32_t known = 0;  // bit n: register n

  [[nodiscard]] bool has(std::uint64_t number) const noexcept {
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
  kRegisterNotKnown,  // the step needs a register whose value is not known
};

// The stack pointer, the return address and the registers that a callee preserves, with their
// values in the function that registers_here() is inlined into.
[[gnu::always_inline]] inline Registers registers_here() noexcept {
  std::uint64_t rbx;
  std::uint64_t rbp;
  std::uint64_t rsp;
  std::uint64_t saved[4];
  std::uint64_t here;
  __asm__ volatile(
      "movq %%rbx, %0\n\tmovq %%rbp, %1\n\tmovq %%rsp, %2\n\tmovq %%r12, %3\n\tmovq %%r13, %4\n\t"
      "movq %%r14, %5\n\tmovq %%r15, %6\n\tleaq 0(%%rip), %7\n"
      : "=m"(rbx), "=m"(rbp), "=m"(rsp), "=m"(saved[0]), "=m"(saved[1]), "=m"(saved[2]),
        "=m"(saved[3]), "=r"(here));
  Registers registers;
  constexpr std::size_t kRbx = 3;
  constexpr std::size_t kR12 = 12;
  registers.set(kRbx, rbx);
  registers.set(kRbp, rbp);
  registers.set(kRsp, rsp);
  for (std::size_t i = 0; i < 4; ++i) registers.set(kR12 + i, saved[i]);
  // The unwinder looks up return address - 1, so `here` + 1 makes it find the rules of `here`.
  registers.set(kReturnAddress, here + 1);
  return registers;
}

// Turns the registers of a frame into its caller's. The return address is in kReturnAddress.
// For the calling thread's own stack only.
Step step(const FrameRules& rules, Registers& registers, StackMemory& memory) noexcept;

}  // namespace gpumemtrace::preload::native
