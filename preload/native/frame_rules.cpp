// SPDX-License-Identifier: Apache-2.0
#include "preload/native/frame_rules.hpp"

namespace gpumemtrace::preload::native {
namespace {

// DW_CFA_*, DWARF 4 section 7.23 and the GNU extensions.
enum Operation : std::uint8_t {
  kNothing = 0x00,
  kSetLocation = 0x01,
  kAdvance1 = 0x02,
  kAdvance2 = 0x03,
  kAdvance4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefinedRule = 0x07,
  kSameValue = 0x08,
  kRegisterRule = 0x09,
  kRememberState = 0x0a,
  kRestoreState = 0x0b,
  kDefineFrame = 0x0c,
  kDefineFrameRegister = 0x0d,
  kDefineFrameOffset = 0x0e,
  kDefineFrameExpression = 0x0f,
  kExpressionRule = 0x10,
  kOffsetExtendedSigned = 0x11,
  kDefineFrameSigned = 0x12,
  kDefineFrameOffsetSigned = 0x13,
  kValueOffsetRule = 0x14,
  kValueOffsetSigned = 0x15,
  kValueExpressionRule = 0x16,
  kGnuArgumentsSize = 0x2e,
  kGnuNegativeOffset = 0x2f,
  // In the upper two bits, with an operand in the lower six.
  kAdvance = 0x40,
  kOffset = 0x80,
  kRestore = 0xc0,
};

constexpr std::size_t kRememberedStates = 4;
constexpr std::size_t kMaxOperations = 4096;

class Interpreter {
 public:
  Interpreter(const FrameDescription& description, std::uint64_t address,
              FrameRules& rules) noexcept
      : description_(description), address_(address), location_(description.begin), rules_(rules) {}

  bool run() noexcept {
    if (!run(description_.initial_program)) return false;
    initial_ = rules_;
    has_initial_ = true;
    return run(description_.program);
  }

 private:
  // Until the end of the program or until a row behind the address begins.
  bool run(ByteReader program) noexcept {
    for (std::size_t count = 0; !program.at_end(); ++count) {
      if (count == kMaxOperations) return false;
      const auto byte = program.fixed<std::uint8_t>();
      const auto operand = static_cast<std::uint8_t>(byte & 0x3f);
      bool good = true;
      switch (byte & 0xc0) {
        case kAdvance:
          location_ += operand * description_.code_alignment;
          break;
        case kOffset:
          good = set(operand, RuleKind::kOffset, scaled(program.uleb()));
          break;
        case kRestore:
          good = restore(operand);
          break;
        default:
          good = run_extended(static_cast<Operation>(byte), program);
      }
      if (!good || !program.ok()) return false;
      if (location_ > address_) return true;
    }
    return true;
  }

  bool run_extended(Operation operation, ByteReader& program) noexcept {
    switch (operation) {
      case kNothing:
        return true;
      case kSetLocation:
        location_ = program.pointer(description_.pointer_encoding, 0);
        return true;
      case kAdvance1:
        location_ += program.fixed<std::uint8_t>() * description_.code_alignment;
        return true;
      case kAdvance2:
        location_ += program.fixed<std::uint16_t>() * description_.code_alignment;
        return true;
      case kAdvance4:
        location_ += program.fixed<std::uint32_t>() * description_.code_alignment;
        return true;
      case kRememberState:
        if (remembered_count_ == kRememberedStates) return false;
        remembered_[remembered_count_++] = rules_;
        return true;
      case kRestoreState:
        if (remembered_count_ == 0) return false;
        rules_ = remembered_[--remembered_count_];
        return true;
      case kGnuArgumentsSize:
        program.uleb();
        return true;
      default:
        return define_frame(operation, program);
    }
  }

  bool define_frame(Operation operation, ByteReader& program) noexcept {
    switch (operation) {
      case kDefineFrame: {
        const std::uint64_t number = program.uleb();
        frame(number, static_cast<std::int64_t>(program.uleb()));
        return true;
      }
      case kDefineFrameSigned: {
        const std::uint64_t number = program.uleb();
        frame(number, scaled_signed(program));
        return true;
      }
      case kDefineFrameRegister:
        frame(program.uleb(), rules_.frame_offset);
        return true;
      case kDefineFrameOffset:
        frame(rules_.frame_register, static_cast<std::int64_t>(program.uleb()));
        return true;
      case kDefineFrameOffsetSigned:
        frame(rules_.frame_register, scaled_signed(program));
        return true;
      case kDefineFrameExpression:
        rules_.frame_is_expression = true;
        rules_.frame_expression = expression(program);
        return true;
      default:
        return define_register(operation, program);
    }
  }

  bool define_register(Operation operation, ByteReader& program) noexcept {
    const std::uint64_t number = program.uleb();
    switch (operation) {
      case kOffsetExtended:
        return set(number, RuleKind::kOffset, scaled(program.uleb()));
      case kOffsetExtendedSigned:
        return set(number, RuleKind::kOffset, scaled_signed(program));
      case kGnuNegativeOffset:
        return set(number, RuleKind::kOffset, scaled(0 - program.uleb()));
      case kValueOffsetRule:
        return set(number, RuleKind::kValueOffset, scaled(program.uleb()));
      case kValueOffsetSigned:
        return set(number, RuleKind::kValueOffset, scaled_signed(program));
      case kRestoreExtended:
        return restore(number);
      case kUndefinedRule:
        return set(number, RuleKind::kUndefined, 0);
      case kSameValue:
        return set(number, RuleKind::kSame, 0);
      case kRegisterRule:
        return set(number, RuleKind::kRegister, static_cast<std::int64_t>(program.uleb()));
      case kExpressionRule:
        return set(number, RuleKind::kExpression, 0, expression(program));
      case kValueExpressionRule:
        return set(number, RuleKind::kValueExpression, 0, expression(program));
      default:
        return false;
    }
  }

  // Numbers of damaged tables may overflow in products: unsigned ones may.
  std::int64_t scaled(std::uint64_t factor) const noexcept {
    return static_cast<std::int64_t>(factor *
                                     static_cast<std::uint64_t>(description_.data_alignment));
  }
  std::int64_t scaled_signed(ByteReader& program) const noexcept {
    return scaled(static_cast<std::uint64_t>(program.sleb()));
  }
  static Expression expression(ByteReader& program) noexcept {
    const ByteReader expression = program.part(program.uleb());
    return {expression.position(), static_cast<std::uint32_t>(expression.left())};
  }

  void frame(std::uint64_t number, std::int64_t offset) noexcept {
    rules_.frame_is_expression = false;
    rules_.frame_register = number;
    rules_.frame_offset = offset;
  }

  // Vector registers and others that are not followed are accepted and forgotten.
  bool set(std::uint64_t number, RuleKind kind, std::int64_t value,
           Expression expression = {}) noexcept {
    if (number < kRegisters) rules_.registers[number] = {kind, value, expression};
    return true;
  }
  bool restore(std::uint64_t number) noexcept {
    if (!has_initial_) return false;
    if (number < kRegisters) rules_.registers[number] = initial_.registers[number];
    return true;
  }

  const FrameDescription& description_;
  const std::uint64_t address_;
  std::uint64_t location_;
  FrameRules& rules_;
  FrameRules initial_;
  bool has_initial_ = false;
  FrameRules remembered_[kRememberedStates];
  std::size_t remembered_count_ = 0;
};

}  // namespace

bool rules_at(const FrameDescription& description, std::uint64_t address,
              FrameRules& out) noexcept {
  out = FrameRules{};
  if (description.return_register != kReturnAddress) return false;
  out.registers[kReturnAddress].kind = RuleKind::kUndefined;
  out.signal_frame = description.signal_frame;
  return Interpreter(description, address, out).run();
}

bool find_rules(const UnwindTables& tables, std::uint64_t address, FrameRules& out) noexcept {
  FrameDescription description;
  return tables.header != nullptr && find_frame_description(tables, address, description) &&
         rules_at(description, address, out);
}

}  // namespace gpumemtrace::preload::native
