// SPDX-License-Identifier: Apache-2.0
// Messages to the user on file descriptor 2: problems only, one line each, never twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumemtrace::preload {

// Part of a text. Unlike std::string_view::substr it cannot throw, which would need the C++
// runtime.
constexpr std::string_view slice(std::string_view text, std::size_t begin,
                                 std::size_t count = std::string_view::npos) noexcept {
  if (begin > text.size()) return {};
  const std::size_t left = text.size() - begin;
  return {text.data() + begin, count < left ? count : left};
}

// Writes a code point as UTF-8. Returns the number of bytes, 0 if there is no room or no such code
// point.
inline std::size_t put_utf8(std::uint32_t point, char* out, std::size_t room) noexcept {
  const std::size_t bytes = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  if (point >= 0x110000 || bytes > room) return 0;
  for (std::size_t i = bytes - 1; i > 0; --i) {
    out[i] = static_cast<char>(0x80 | (point & 0x3f));
    point >>= 6;
  }
  constexpr std::uint32_t kFirstBits[] = {0, 0, 0xc0, 0xe0, 0xf0};
  out[0] = static_cast<char>(kFirstBits[bytes] | point);
  return bytes;
}

// A line of text in a fixed buffer; what does not fit is cut. No allocation, any thread.
class Line {
 public:
  static constexpr std::size_t kCapacity = 4095;

  Line& operator<<(std::string_view text) noexcept;
  Line& operator<<(std::uint64_t number) noexcept;
  std::string_view text() const noexcept { return {buffer_, size_}; }
  const char* c_str() noexcept {
    buffer_[size_] = '\0';
    return buffer_;
  }
  std::size_t size() const noexcept { return size_; }
  void truncate(std::size_t size) noexcept { size_ = size < size_ ? size : size_; }

 private:
  char buffer_[kCapacity + 1];
  std::size_t size_ = 0;
};

void silence_messages() noexcept;

// Remembers the file that is standard error (descriptor 2) now: messages go to this file. If the
// program later has another file under descriptor 2, messages are written to that only if it is a
// log: a file opened for appending.
void remember_standard_error() noexcept;

// Writes "gpumemtrace: TEXT" and a line end. Makes system calls, so it is not for the steady state.
// Neither ends the program nor waits longer than 0.1 s: if nobody reads, the message is lost.
void message(const Line& line) noexcept;

// The text of an errno value for the few that matter, else "system error".
std::string_view errno_text(int error) noexcept;

}  // namespace gpumemtrace::preload
