// SPDX-License-Identifier: Apache-2.0
// Rules that find a function's caller at one instruction: the program of a frame description,
// interpreted up to there. Register numbers are those of the System V ABI for x86-64 (figure 3.36).
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/native/frame_description.hpp"

namespace gpumemtrace::preload::native {

inline constexpr std::size_t kRbp = 6;
inline constexpr std::size_t kRsp = 7;
inline constexpr std::size_t kReturnAddress = 16;
inline constexpr std::size_t kRegisters = 17;

enum class RuleKind : std::uint8_t {
  kSame,             // the caller's value is the present one
  kUndefined,        // it is not known
  kOffset,           // it stands in memory at frame address + value
  kValueOffset,      // it is frame address + value
  kRegister,         // it is in register `value`
  kExpression,       // it stands in memory where `expression` says
  kValueExpression,  // `expression` says it
};

// A DWARF expression, in the module's tables.
struct Expression {
  const std::uint8_t* begin = nullptr;
  std::uint32_t bytes = 0;
};

struct RegisterRule {
  RuleKind kind = RuleKind::kSame;
  std::int64_t value = 0;
  Expression expression;
};

// The canonical frame address (CFA) is the stack pointer before the call instruction's push.
struct FrameRules {
  bool frame_is_expression = false;
  std::uint64_t frame_register = 0;
  std::int64_t frame_offset = 0;
  Expression frame_expression;
  bool signal_frame = false;
  RegisterRule registers[kRegisters];
};

// False if the program is damaged or uses what compilers do not emit. Any thread.
[[nodiscard]] bool rules_at(const FrameDescription& description, std::uint64_t address,
                            FrameRules& out) noexcept;

// The same from a module's tables; false also if it has none, or none for the address.
[[nodiscard]] bool find_rules(const UnwindTables& tables, std::uint64_t address,
                              FrameRules& out) noexcept;

}  // namespace gpumemtrace::preload::native
