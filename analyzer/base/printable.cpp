// SPDX-License-Identifier: Apache-2.0
#include "analyzer/base/printable.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::analyzer {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  // 0: the text does not begin with valid UTF-8
};

// Decodes the first code point of UTF-8 text; surrogates are accepted too.
CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  std::uint32_t value = first & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3fU);
  }
  constexpr auto kLeast = std::to_array<std::uint32_t>({0, 0, 0x80, 0x800, 0x10000});
  if (value < kLeast[bytes] || value > 0x10ffff) return {};
  return {value, bytes};
}

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

constexpr auto kUnprintable = std::to_array<Range>({
    {0x00, 0x1f},        // control characters
    {0x7f, 0x9f},        // control characters of 8 bits
    {0x61c, 0x61c},      // the Arabic letter mark, which changes the writing direction
    {0x200e, 0x200f},    // left-to-right and right-to-left mark
    {0x2028, 0x202e},    // ends of lines and paragraphs, changes of the writing direction
    {0x2066, 0x2069},    // isolates, which change the writing direction
    {0xd800, 0xdfff},    // surrogates
    {0xfdd0, 0xfdef},    // noncharacters
    {0xfeff, 0xfeff},    // byte order mark
    {0xfff9, 0xfffb},    // marks of interlinear annotations
    {0xe0000, 0xe007f},  // tag characters, which are invisible
});

bool is_printable(std::uint32_t value) {
  if ((value & 0xfffe) == 0xfffe) return false;  // a noncharacter
  return std::ranges::none_of(kUnprintable, [&](const Range& range) {
    return value >= range.first && value <= range.last;
  });
}

void add_hex(std::string& out, char letter, std::uint32_t value, int digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '\\';
  out += letter;
  for (int i = digits - 1; i >= 0; --i) out += kDigits[(value >> (4 * i)) & 0xf];
}

void add_escape(std::string& out, std::uint32_t value) {
  if (value >= 0xdc80 && value <= 0xdcff) {
    // the surrogate by which Python represents a byte that is no UTF-8
    add_hex(out, 'x', value - 0xdc00, 2);
  } else if (value < 0x100) {
    add_hex(out, 'x', value, 2);
  } else if (value < 0x10000) {
    add_hex(out, 'u', value, 4);
  } else {
    add_hex(out, 'U', value, 8);
  }
}

// True if the text at this position begins a command of a build server. GitHub: "::error ::" at the
// begin of a line, "##[error]" anywhere; Azure and TeamCity: "##vso[", "##teamcity[". If lines are
// broken, every word may come to stand at the begin of a line.
bool begins_command(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  for (const std::string_view anywhere : {"##[", "##vso[", "##teamcity["}) {
    if (rest.starts_with(anywhere)) return true;
  }
  return rest.starts_with("::") && (at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n');
}

void add_printable(std::string& out, std::string_view text, bool keeps_lines) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(text.substr(at));
    if (point.bytes == 0) {
      add_hex(out, 'x', static_cast<unsigned char>(text[at]), 2);
    } else if (keeps_lines && text[at] == '\n') {
      out += '\n';
    } else if (!is_printable(point.value) || begins_command(text, at)) {
      add_escape(out, point.value);
    } else {
      out += text.substr(at, point.bytes);
    }
    at += std::max<std::size_t>(point.bytes, 1);
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  add_printable(out, text, false);
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  add_printable(out, text, true);
  return out;
}

std::string with_json_escapes(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(text.substr(at));
    const std::size_t bytes = std::max<std::size_t>(point.bytes, 1);
    const bool stays = is_printable(point.value) && !begins_command(text, at);
    if (point.bytes == 0 || stays) {
      out += text.substr(at, bytes);
    } else if (point.value < 0x10000) {
      add_hex(out, 'u', point.value, 4);
    } else {
      // a surrogate pair, because an escape in JSON has four digits
      add_hex(out, 'u', 0xd800 + ((point.value - 0x10000) >> 10), 4);
      add_hex(out, 'u', 0xdc00 + (point.value & 0x3ff), 4);
    }
    at += bytes;
  }
  return out;
}

}  // namespace gpumemtrace::analyzer
