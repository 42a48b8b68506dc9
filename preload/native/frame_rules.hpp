// SPDX-License-Identifier: Apache-2.0
// Finds the unwind entry of the function around an address in a module's unwind tables (.eh_frame,
// by the search table of .eh_frame_hdr), and interprets this entry's instructions up to one code
// address. The result is a set of rules that give the registers of the function's caller. Register
// numbers are those of the System V ABI for x86-64 (figure 3.36). Sources: Linux Standard Base Core
// 5.0, chapter 10.6; DWARF 4, section 6.4.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/base/byte_reader.hpp"
#include "preload/loader/loaded_module.hpp"

namespace gpumemtrace::preload::native {

// The unwind entry of one function (FDE), with the fields that it shares with other entries (CIE).
struct FrameDescription {
  std::uint64_t begin = 0;  // first address of the function's code
  std::uint64_t end = 0;
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  std::uint64_t return_register = 0;
  std::uint8_t pointer_encoding = 0;
  bool has_augmentation = false;
  bool signal_frame = false;  // the function returns to an interrupted instruction, not to a call
  ByteReader initial_program;
  ByteReader program;
};

// Finds the unwind entry of the function around `address`. False if the tables have none, are
// damaged, or use DWARF features that compilers do not emit. Any thread; reads only.
[[nodiscard]] bool find_frame_description(const UnwindTables& tables, std::uint64_t address,
                                          FrameDescription& out) noexcept;

inline constexpr std::size_t kRbp = 6;
inline constexpr std::size_t kRsp = 7;
inline constexpr std::size_t kReturnAddress = 16;
inline constexpr std::size_t kRegisters = 17;

enum class RuleKind : std::uint8_t {
  kSame,             // the caller's value is the present value
  kUndefined,        // the caller's value is not known
  kOffset,           // the caller's value is in memory, at frame address + value
  kValueOffset,      // the caller's value is frame address + value
  kRegister,         // the caller's value is in register `value`
  kExpression,       // the caller's value is in memory, at the address that `expression` gives
  kValueExpression,  // `expression` gives the caller's value
};

// A DWARF expression: its bytes in the module's unwind tables.
struct Expression {
  const std::uint8_t* begin = nullptr;
  std::uint32_t bytes = 0;
};

struct RegisterRule {
  RuleKind kind = RuleKind::kSame;
  std::int64_t value = 0;
  Expression expression;
};

// Rules for one instruction: they give the canonical frame address (CFA), which is the stack
// pointer before the call pushed the return address, and the caller's registers.
struct FrameRules {
  bool frame_is_expression = false;
  std::uint64_t frame_register = 0;
  std::int64_t frame_offset = 0;
  Expression frame_expression;
  bool signal_frame = false;
  RegisterRule registers[kRegisters];
};

// Interprets the entry's instructions up to `address`; `out` gets the rules that hold there. False
// if the entry is damaged or uses DWARF features that compilers do not emit. Any thread.
[[nodiscard]] bool rules_at(const FrameDescription& description, std::uint64_t address,
                            FrameRules& out) noexcept;

// Finds the unwind entry of `address`, then the rules by rules_at(). False also if the module has
// no tables, or the tables have no entry for the address.
[[nodiscard]] bool find_rules(const UnwindTables& tables, std::uint64_t address,
                              FrameRules& out) noexcept;

}  // namespace gpumemtrace::preload::native
