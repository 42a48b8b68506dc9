// SPDX-License-Identifier: Apache-2.0
#include "preload/native/frame_registers.hpp"

namespace gpumemtrace::preload::native {
namespace {

// DW_OP_*, DWARF 4 section 7.7.1.
enum Operation : std::uint8_t {
  kAddress = 0x03,
  kDereference = 0x06,
  kConstant1u = 0x08,
  kConstant1s = 0x09,
  kConstant2u = 0x0a,
  kConstant2s = 0x0b,
  kConstant4u = 0x0c,
  kConstant4s = 0x0d,
  kConstant8u = 0x0e,
  kConstant8s = 0x0f,
  kConstantU = 0x10,
  kConstantS = 0x11,
  kDuplicate = 0x12,
  kDrop = 0x13,
  kOver = 0x14,
  kPick = 0x15,
  kSwap = 0x16,
  kRotate = 0x17,
  kAnd = 0x1a,
  kMinus = 0x1c,
  kMultiply = 0x1e,
  kNegate = 0x1f,
  kNot = 0x20,
  kOr = 0x21,
  kPlus = 0x22,
  kPlusConstant = 0x23,
  kShiftLeft = 0x24,
  kShiftRight = 0x25,
  kShiftRightSigned = 0x26,
  kXor = 0x27,
  kBranch = 0x28,
  kEqual = 0x29,
  kGreaterOrEqual = 0x2a,
  kGreater = 0x2b,
  kLessOrEqual = 0x2c,
  kLess = 0x2d,
  kNotEqual = 0x2e,
  kSkip = 0x2f,
  kLiteral0 = 0x30,
  kLiteral31 = 0x4f,
  kBaseRegister0 = 0x70,
  kBaseRegister31 = 0x8f,
  kBaseRegisterX = 0x92,
  kNothing = 0x96,
};

// Evaluates a DWARF expression on a stack of values; the first operation that cannot be carried
// out sets `outcome_`.
class Evaluation {
 public:
  Evaluation(const Registers& registers, StackMemory& memory) noexcept
      : registers_(registers), memory_(memory) {}

  Step run(const Expression& expression, std::uint64_t& result) noexcept {
    const std::uint8_t* const end = expression.begin + expression.bytes;
    ByteReader code(expression.begin, end);
    for (std::size_t count = 0; !code.at_end(); ++count) {
      if (count == kMaxOperations) return Step::kEnd;
      const auto operation = code.fixed<std::uint8_t>();
      if (operation == kSkip || operation == kBranch) {
        const auto distance = code.fixed<std::int16_t>();
        if (operation == kBranch && pop() == 0) continue;
        const std::ptrdiff_t target = code.position() - expression.begin + distance;
        if (target < 0 || target > static_cast<std::ptrdiff_t>(expression.bytes)) {
          return Step::kEnd;
        }
        code = ByteReader(expression.begin + target, end);
      } else {
        push_value_of(operation, code);
      }
      if (outcome_ != Step::kDone || !code.ok()) break;
    }
    if (outcome_ == Step::kDone && (!code.ok() || depth_ == 0)) outcome_ = Step::kEnd;
    if (outcome_ == Step::kDone) result = pop();
    return outcome_;
  }
  void push(std::uint64_t value) noexcept {
    if (depth_ == kMaxDepth) {
      outcome_ = Step::kEnd;
    } else {
      stack_[depth_++] = value;
    }
  }

 private:
  static constexpr std::size_t kMaxOperations = 256;
  static constexpr std::size_t kMaxDepth = 32;

  std::uint64_t pop() noexcept {
    if (depth_ == 0) {
      outcome_ = Step::kEnd;
      return 0;
    }
    return stack_[--depth_];
  }
  void pick(std::size_t index) noexcept {
    if (index >= depth_) {
      outcome_ = Step::kEnd;
    } else {
      push(stack_[depth_ - 1 - index]);
    }
  }
  void push_register(std::uint64_t number, std::int64_t offset) noexcept {
    if (registers_.has(number)) {
      push(registers_.values[number] + static_cast<std::uint64_t>(offset));
    } else {
      outcome_ = Step::kRegisterNotKnown;
    }
  }

  void push_value_of(std::uint8_t operation, ByteReader& code) noexcept {
    if (operation >= kLiteral0 && operation <= kLiteral31) {
      push(operation - kLiteral0);
    } else if (operation >= kBaseRegister0 && operation <= kBaseRegister31) {
      push_register(operation - kBaseRegister0, code.sleb());
    } else if (!push_constant(operation, code) && !rearrange_or_load(operation, code)) {
      calculate(operation, code);
    }
  }

  bool push_constant(std::uint8_t operation, ByteReader& code) noexcept {
    const auto extended = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
    switch (operation) {
      case kConstant1u:
        push(code.fixed<std::uint8_t>());
        return true;
      case kConstant1s:
        push(extended(code.fixed<std::int8_t>()));
        return true;
      case kConstant2u:
        push(code.fixed<std::uint16_t>());
        return true;
      case kConstant2s:
        push(extended(code.fixed<std::int16_t>()));
        return true;
      case kConstant4u:
        push(code.fixed<std::uint32_t>());
        return true;
      case kConstant4s:
        push(extended(code.fixed<std::int32_t>()));
        return true;
      case kAddress:
      case kConstant8u:
      case kConstant8s:
        push(code.fixed<std::uint64_t>());
        return true;
      case kConstantU:
        push(code.uleb());
        return true;
      case kConstantS:
        push(extended(code.sleb()));
        return true;
      default:
        return false;
    }
  }

  // Carries out operations that rearrange the stack, or push from a register or memory; false if
  // the operation is none of these.
  bool rearrange_or_load(std::uint8_t operation, ByteReader& code) noexcept {
    switch (operation) {
      case kNothing:
        return true;
      case kDuplicate:
        pick(0);
        return true;
      case kOver:
        pick(1);
        return true;
      case kPick:
        pick(code.fixed<std::uint8_t>());
        return true;
      case kDrop:
        pop();
        return true;
      case kSwap: {
        const std::uint64_t top = pop();
        const std::uint64_t second = pop();
        push(top);
        push(second);
        return true;
      }
      case kRotate: {
        const std::uint64_t top = pop();
        const std::uint64_t second = pop();
        const std::uint64_t third = pop();
        push(top);
        push(third);
        push(second);
        return true;
      }
      case kBaseRegisterX: {
        const std::uint64_t number = code.uleb();
        push_register(number, code.sleb());
        return true;
      }
      case kDereference: {
        std::uint64_t value = 0;
        if (!memory_.read(pop(), value)) outcome_ = Step::kEnd;
        push(value);
        return true;
      }
      default:
        return false;
    }
  }

  void calculate(std::uint8_t operation, ByteReader& code) noexcept {
    const std::uint64_t right = pop();
    if (operation == kNegate) return push(0 - right);
    if (operation == kNot) return push(~right);
    if (operation == kPlusConstant) return push(right + code.uleb());
    const std::uint64_t left = pop();
    const auto signed_left = static_cast<std::int64_t>(left);
    const auto signed_right = static_cast<std::int64_t>(right);
    switch (operation) {
      case kAnd:
        return push(left & right);
      case kMinus:
        return push(left - right);
      case kMultiply:
        return push(left * right);
      case kOr:
        return push(left | right);
      case kPlus:
        return push(left + right);
      case kShiftLeft:
        return push(right < 64 ? left << right : 0);
      case kShiftRight:
        return push(right < 64 ? left >> right : 0);
      case kShiftRightSigned:
        return push(static_cast<std::uint64_t>(signed_left >> (right < 64 ? right : 63)));
      case kXor:
        return push(left ^ right);
      case kEqual:
        return push(left == right);
      case kGreaterOrEqual:
        return push(signed_left >= signed_right);
      case kGreater:
        return push(signed_left > signed_right);
      case kLessOrEqual:
        return push(signed_left <= signed_right);
      case kLess:
        return push(signed_left < signed_right);
      case kNotEqual:
        return push(left != right);
      default:
        outcome_ = Step::kEnd;
    }
  }

  const Registers& registers_;
  StackMemory& memory_;
  Step outcome_ = Step::kDone;
  std::uint64_t stack_[kMaxDepth];
  std::size_t depth_ = 0;
};

// Computes the canonical frame address (CFA): the caller's stack pointer after the call returns.
Step frame_address(const FrameRules& rules, const Registers& registers, StackMemory& memory,
                   std::uint64_t& frame) noexcept {
  if (rules.frame_is_expression) {
    return Evaluation(registers, memory).run(rules.frame_expression, frame);
  }
  if (!registers.has(rules.frame_register)) return Step::kRegisterNotKnown;
  frame = registers.values[rules.frame_register] + static_cast<std::uint64_t>(rules.frame_offset);
  return Step::kDone;
}

// Finds the caller's value of one register; kEnd if the rule gives none. `frame` is the canonical
// frame address.
Step recover(const RegisterRule& rule, std::size_t number, std::uint64_t frame,
             const Registers& registers, StackMemory& memory, std::uint64_t& value) noexcept {
  switch (rule.kind) {
    case RuleKind::kUndefined:
      return Step::kEnd;
    case RuleKind::kSame:
      value = registers.values[number];
      return registers.has(number) ? Step::kDone : Step::kRegisterNotKnown;
    case RuleKind::kRegister: {
      const auto source = static_cast<std::uint64_t>(rule.value);
      if (!registers.has(source)) return Step::kRegisterNotKnown;
      value = registers.values[source];
      return Step::kDone;
    }
    case RuleKind::kOffset:
    case RuleKind::kValueOffset:
      value = frame + static_cast<std::uint64_t>(rule.value);
      break;
    case RuleKind::kExpression:
    case RuleKind::kValueExpression: {
      Evaluation evaluation(registers, memory);
      evaluation.push(frame);
      if (const Step step = evaluation.run(rule.expression, value); step != Step::kDone) {
        return step;
      }
      break;
    }
  }
  const bool in_memory = rule.kind == RuleKind::kOffset || rule.kind == RuleKind::kExpression;
  return !in_memory || memory.read(value, value) ? Step::kDone : Step::kEnd;
}

}  // namespace

// Replaces the registers of a frame by its caller's; unchanged if the result is not kDone.
Step step(const FrameRules& rules, Registers& registers, StackMemory& memory) noexcept {
  std::uint64_t frame = 0;
  if (const Step outcome = frame_address(rules, registers, memory, frame); outcome != Step::kDone) {
    return outcome;
  }
  // A caller's frame lies at higher addresses, unless a signal led to another stack.
  if (!rules.signal_frame && (frame <= registers.values[kRsp] || !memory.reaches(frame))) {
    return Step::kEnd;
  }
  Registers caller;
  caller.set(kRsp, frame);
  for (std::size_t number = 0; number < kRegisters; ++number) {
    const RegisterRule& rule = rules.registers[number];
    if (number == kRsp && rule.kind == RuleKind::kSame) continue;
    std::uint64_t value = 0;
    const Step outcome = recover(rule, number, frame, registers, memory, value);
    if (outcome == Step::kDone) {
      caller.set(number, value);
    } else if (number == kReturnAddress) {
      return outcome;
    } else {
      caller.forget(number);
    }
  }
  registers = caller;
  if (rules.signal_frame) memory.move_to(caller.values[kRsp]);
  return Step::kDone;
}

}  // namespace gpumemtrace::preload::native
