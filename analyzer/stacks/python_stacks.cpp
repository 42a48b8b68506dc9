// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stacks/python_stacks.hpp"

#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::uint8_t byte_at(std::span<const std::byte> table, std::size_t position) {
  return static_cast<std::uint8_t>(table[position]);
}

std::uint32_t from_lnotab(std::span<const std::byte> table, std::uint32_t first_line,
                          std::uint32_t instruction) {
  std::uint32_t address = 0;
  std::int64_t line = first_line;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    address += byte_at(table, i);
    if (address > instruction) break;
    line += static_cast<std::int8_t>(byte_at(table, i + 1));
  }
  return line > 0 ? static_cast<std::uint32_t>(line) : 0;
}

std::uint32_t from_ranges(std::span<const std::byte> table, std::uint32_t first_line,
                          std::uint32_t instruction) {
  constexpr std::int8_t kNoLine = -128;
  std::uint32_t end = 0;
  std::int64_t line = first_line;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto increment = static_cast<std::int8_t>(byte_at(table, i + 1));
    end += byte_at(table, i);
    if (increment != kNoLine) line += increment;
    if (instruction < end) {
      return increment == kNoLine || line <= 0 ? 0 : static_cast<std::uint32_t>(line);
    }
  }
  return 0;
}

// Reads the entries of CPython's location table. An entry is the byte 1 | code (4 bits) | length -
// 1 (3 bits), then bytes that depend on the code.
class LocationCursor {
 public:
  explicit LocationCursor(std::span<const std::byte> table) : table_(table) {}

  bool at_end() const { return position_ >= table_.size(); }
  std::uint8_t byte() { return at_end() ? std::uint8_t{0} : byte_at(table_, position_++); }
  void skip(std::size_t bytes) { position_ += bytes; }

  // Reads an integer of six bits a byte, least significant first; bit 6 says that more bytes
  // follow.
  std::uint32_t varint() {
    std::uint32_t value = 0;
    for (unsigned shift = 0; shift < 32; shift += 6) {
      const std::uint8_t next = byte();
      value |= static_cast<std::uint32_t>(next & 0x3f) << shift;
      if ((next & 0x40) == 0) break;
    }
    return value;
  }
  std::int32_t signed_varint() {
    const std::uint32_t value = varint();
    const auto magnitude = static_cast<std::int32_t>(value >> 1);
    return (value & 1) != 0 ? -magnitude : magnitude;
  }

 private:
  std::span<const std::byte> table_;
  std::size_t position_ = 0;
};

std::uint32_t from_locations(std::span<const std::byte> table, std::uint32_t first_line,
                             std::uint32_t instruction) {
  constexpr std::uint8_t kFirstOneLine = 10;
  constexpr std::uint8_t kNoColumns = 13;
  constexpr std::uint8_t kLong = 14;
  constexpr std::uint8_t kNone = 15;
  LocationCursor in(table);
  std::uint32_t end = 0;
  std::int64_t line = first_line;
  while (!in.at_end()) {
    const std::uint8_t head = in.byte();
    const std::uint8_t code = (head >> 3) & 15;
    end += ((head & 7u) + 1) * 2;  // the length is in code units of two bytes
    if (code < kFirstOneLine) {
      in.skip(1);
    } else if (code < kNoColumns) {
      line += code - kFirstOneLine;
      in.skip(2);
    } else if (code == kNoColumns) {
      line += in.signed_varint();
    } else if (code == kLong) {
      line += in.signed_varint();
      in.varint();
      in.varint();
      in.varint();
    }
    if (instruction < end) {
      return code == kNone || line <= 0 ? 0 : static_cast<std::uint32_t>(line);
    }
  }
  return 0;
}

}  // namespace

std::uint32_t python_line(std::uint32_t version, std::span<const std::byte> table,
                          std::uint32_t first_line, std::uint32_t instruction) {
  const std::uint32_t minor = (version >> 16) & 0xff;
  if (minor <= 9) return from_lnotab(table, first_line, instruction);
  if (minor == 10) return from_ranges(table, first_line, instruction);
  return from_locations(table, first_line, instruction);
}

void PythonStacks::add(const trace::RecordHeader& record) {
  if (record.kind == trace::RecordKind::kStack) {
    const auto& stack = trace::as<trace::Stack>(record);
    const auto frames = trace::python_frames_of(stack);
    if (frames.empty()) return;
    stacks_[stack.id] = {stack.python_version,
                         (record.flags & trace::kFlagAutograd) != 0,
                         {frames.begin(), frames.end()}};
  } else if (record.kind == trace::RecordKind::kCode) {
    const auto& code = trace::as<trace::Code>(record);
    const auto bytes = trace::bytes_of(code);
    CodeObject& object = codes_[code.id];
    object.first_line = code.first_line;
    object.pieces[{code.text, code.part}].assign(reinterpret_cast<const char*>(bytes.data()),
                                                 bytes.size());
  }
}

std::string PythonStacks::CodeObject::text(trace::CodeText which) const {
  std::string whole;
  for (const auto& [key, piece] : pieces) {
    if (key.first == which) whole += piece;
  }
  return whole;
}

std::vector<CodePlace> PythonStacks::places_of(trace::StackId stack) const {
  const auto found = stacks_.find(stack);
  if (found == stacks_.end()) return {};
  std::vector<CodePlace> places;
  for (const std::uint64_t packed : found->second.frames) {
    places.push_back(
        {static_cast<std::uint32_t>(packed >> 32), static_cast<std::uint32_t>(packed)});
  }
  return places;
}

bool PythonStacks::is_under_autograd(trace::StackId stack) const {
  const auto found = stacks_.find(stack);
  return found != stacks_.end() && found->second.under_autograd;
}

bool PythonStacks::are_same(trace::StackId stack, trace::StackId other) const {
  const auto found = stacks_.find(stack);
  if (found == stacks_.end()) return false;
  const auto found_other = stack == other ? found : stacks_.find(other);
  return found_other != stacks_.end() && found->second.frames == found_other->second.frames;
}

std::string PythonStacks::text_of(std::uint32_t code, trace::CodeText which) const {
  const auto found = codes_.find(code);
  return found == codes_.end() ? std::string() : found->second.text(which);
}

std::vector<PythonFrame> PythonStacks::frames_of(trace::StackId stack) const {
  const auto found = stacks_.find(stack);
  if (found == stacks_.end()) return {};
  std::vector<PythonFrame> frames;
  for (const std::uint64_t packed : found->second.frames) {
    const auto code = codes_.find(static_cast<std::uint32_t>(packed >> 32));
    if (code == codes_.end()) {
      frames.emplace_back();
      continue;
    }
    const std::string table = code->second.text(trace::CodeText::kLineTable);
    PythonFrame frame;
    frame.function = code->second.text(trace::CodeText::kName);
    frame.file = code->second.text(trace::CodeText::kFile);
    frame.first_line = code->second.first_line;
    frame.line = python_line(found->second.version, std::as_bytes(std::span(table)),
                             code->second.first_line, static_cast<std::uint32_t>(packed));
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace gpumemtrace::analyzer
