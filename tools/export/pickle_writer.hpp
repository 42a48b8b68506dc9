// SPDX-License-Identifier: Apache-2.0
// Python's pickle format, as far as PyTorch's memory page reads it: protocol 2 without classes.
// https://docs.python.org/3/library/pickletools.html
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace gpumemtrace::tools {

// Values are written in the order of the calls; dict() and list() take a function that writes their
// content.
class PickleWriter {
 public:
  // A value that was written and can be referred to again.
  enum class Shared : std::uint32_t {};

  PickleWriter() { out_ = "\x80\x02"; }

  void number(std::uint64_t value);
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  // The same text is written once and referred to from then on.
  void text(std::string_view value);
  void pair_of_numbers(std::uint64_t first, std::uint64_t second) {
    number(first);
    number(second);
    out_ += '\x86';
  }

  // Writes a dict. write_items() calls text() for a key and then writes its value, for each item.
  template <class WriteItems>
  void dict(WriteItems&& write_items) {
    out_ += "}(";
    write_items();
    out_ += 'u';
  }
  // Writes a list; write_element(i) writes its i-th value.
  template <class WriteElement>
  void list(std::size_t count, WriteElement&& write_element) {
    // The maximum of elements that a reader holds on its stack before it appends them to the list.
    constexpr std::size_t kBatch = 1000;
    out_ += ']';
    for (std::size_t i = 0; i < count;) {
      out_ += '(';
      for (const std::size_t end = std::min(count, i + kBatch); i < end; ++i) write_element(i);
      out_ += 'e';
    }
  }
  // Makes the value that was just written referable; again() then writes a reference to it.
  [[nodiscard]] Shared share();
  void again(Shared value);

  // The whole pickle; nothing may be written after it.
  [[nodiscard]] std::string finish() {
    out_ += '.';
    return std::move(out_);
  }

 private:
  void little_endian(std::uint64_t value, std::size_t bytes);

  std::string out_;
  std::uint32_t shared_ = 0;  // number of values that can be referred to
  std::unordered_map<std::string, Shared> texts_;
};

}  // namespace gpumemtrace::tools
