// SPDX-License-Identifier: Apache-2.0
#include "preload/native/frame_rules.hpp"

#include <string.h>

namespace gpumemtrace::preload::native {
namespace {

constexpr std::uint8_t kTableEncoding =
    0x3b;  // DW_EH_PE_datarel | DW_EH_PE_sdata4: signed 32-bit offsets from the header
constexpr std::size_t kPairBytes = 8;
constexpr std::uint32_t kLongLength = 0xffff'ffff;

// Makes `out` read the entry of .eh_frame at `address`, after its length word. False if the address
// is outside the tables, or the entry is the section's terminator or has a 64-bit length.
bool entry_at(const UnwindTables& tables, std::uint64_t address, ByteReader& out) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(tables.begin);
  const auto end = reinterpret_cast<std::uintptr_t>(tables.end);
  if (address < begin || address >= end) return false;
  ByteReader reader(tables.begin + (address - begin), tables.end);
  const auto length = reader.fixed<std::uint32_t>();
  if (length == 0 || length == kLongLength) return false;
  out = reader.part(length);
  return reader.ok();
}

// Searches the sorted table of pairs (begin of a function, its entry in .eh_frame). Returns the
// entry's address; 0: no function can hold the address.
std::uint64_t search(const UnwindTables& tables, std::uint64_t address) noexcept {
  ByteReader reader(tables.header, tables.end);
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(tables.header);
  const auto version = reader.fixed<std::uint8_t>();
  const auto frame_encoding = reader.fixed<std::uint8_t>();
  const auto count_encoding = reader.fixed<std::uint8_t>();
  const auto table_encoding = reader.fixed<std::uint8_t>();
  if (version != 1 || table_encoding != kTableEncoding || count_encoding == kPointerOmitted) {
    return 0;
  }
  if (frame_encoding != kPointerOmitted) reader.pointer(frame_encoding, base);
  const std::uint64_t count = reader.pointer(count_encoding, base);
  if (!reader.ok() || count == 0 || count > reader.left() / kPairBytes) return 0;
  const std::uint8_t* const pairs = reader.position();
  const auto word = [&](std::uint64_t pair, std::size_t which) noexcept {
    std::int32_t value;
    memcpy(&value, pairs + pair * kPairBytes + which * sizeof value, sizeof value);
    return base + static_cast<std::uint64_t>(std::int64_t{value});
  };
  if (address < word(0, 0)) return 0;
  std::uint64_t first =
      0;  // the last pair that begins at or before the address is in [first, last)
  std::uint64_t last = count;
  while (last - first > 1) {
    const std::uint64_t middle = first + (last - first) / 2;
    (word(middle, 0) <= address ? first : last) = middle;
  }
  return word(first, 1);
}

// Reads the data that the augmentation text announces, letter by letter.
bool read_augmentation(ByteReader& reader, const char* text, FrameDescription& out) noexcept {
  for (; *text != '\0'; ++text) {
    switch (*text) {
      case 'R':
        out.pointer_encoding = reader.fixed<std::uint8_t>();
        break;
      case 'L':
        reader.skip(1);
        break;
      case 'P': {
        const auto encoding = reader.fixed<std::uint8_t>();
        // The pointer to the personality routine is skipped: only its length matters.
        reader.pointer(encoding & 0x0f, 0);
        break;
      }
      case 'S':
        out.signal_frame = true;
        break;
      case 'B':  // 64-bit Arm: return addresses are signed
        break;
      default:
        return false;
    }
  }
  return reader.ok();
}

// Reads the common entry (CIE) at `address`; false if it is damaged or has an unknown form.
bool read_common(const UnwindTables& tables, std::uint64_t address,
                 FrameDescription& out) noexcept {
  ByteReader reader;
  if (!entry_at(tables, address, reader) || reader.fixed<std::uint32_t>() != 0) return false;
  const auto version = reader.fixed<std::uint8_t>();
  if (version != 1 && version != 3) return false;
  const auto* text = reinterpret_cast<const char*>(reader.position());
  const std::size_t length = strnlen(text, reader.left());
  reader.skip(length + 1);
  out.code_alignment = reader.uleb();
  out.data_alignment = reader.sleb();
  out.return_register = version == 1 ? reader.fixed<std::uint8_t>() : reader.uleb();
  if (!reader.ok()) return false;
  if (length > 0) {
    if (text[0] != 'z') return false;
    out.has_augmentation = true;
    ByteReader data = reader.part(reader.uleb());
    if (!reader.ok() || !read_augmentation(data, text + 1, out)) return false;
  }
  out.initial_program = reader;
  return true;
}

}  // namespace

// Finds and reads the entry (FDE) for the function around `address`, with its common entry (CIE).
bool find_frame_description(const UnwindTables& tables, std::uint64_t address,
                            FrameDescription& out) noexcept {
  if (tables.header < tables.begin || tables.header >= tables.end) return false;
  ByteReader reader;
  if (!entry_at(tables, search(tables, address), reader)) return false;
  out = FrameDescription{};
  const std::uint64_t here = reinterpret_cast<std::uintptr_t>(reader.position());
  const auto distance = reader.fixed<std::uint32_t>();  // bytes back to the common entry (CIE)
  if (distance == 0 || !read_common(tables, here - distance, out)) return false;
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(tables.header);
  out.begin = reader.pointer(out.pointer_encoding, base);
  out.end = out.begin + reader.pointer(out.pointer_encoding & 0x0f, 0);
  if (!reader.ok() || address < out.begin || address >= out.end) return false;
  if (out.has_augmentation) reader.skip(reader.uleb());  // skips the exception handler's data
  out.program = reader;
  return reader.ok();
}

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
  // These operations are in a byte's upper two bits, with an operand in the lower six.
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
  // Interprets the entry's instructions to their end, or until a row after the address begins.
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

  // Computed in unsigned numbers, because a product from damaged tables may overflow.
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

  // Rules of registers that are not followed, such as vector registers, are accepted and ignored.
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
