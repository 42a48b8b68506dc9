// SPDX-License-Identifier: Apache-2.0
// Line tables of one function, compiled by each version:
//
//   1 def f(a):
//   2     x = (a +
//   3          1)
//   4     for i in range(3):
//   5         x += i
//   6
//   7     return g(
//   8         x,
//   9         a)
//
// The expected lines are those of co_lines() and dis.findlinestarts() of that version.

#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/stacks/python_stacks.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::python_lines_test {

using gpumemtrace::analyzer::python_line;

namespace {

std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

struct Case {
  std::uint32_t version;
  std::string_view table;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> lines;  // instruction and line of each entry
};

const std::vector<Case> kCases = {
    {0x030912f0, "0001020102ff04020c010a020201020102fe", {{0, 2}, {2, 3}, {4, 2}, {8, 4}, {20, 5}}},
    {0x030a0df0,
     "0201020104ff0c020a0102020201020104fe",
     {{0, 2}, {2, 3}, {4, 2}, {6, 2}, {8, 4}, {20, 5}, {30, 7}, {32, 8}, {34, 9}, {36, 7}}},
    {0x030b07f0,
     "8000d8090ad8090af103010a0b8041e50d12903189588c58f00001050ff00001050f8801d80809885189068801880"
     "1"
     "e50b0cd80809d80809f105020c0bf400020c0bf00002050b",
     {{0, 1}, {2, 2}, {4, 3}, {6, 2}, {12, 4}, {46, 5}, {58, 7}, {70, 8}, {72, 9}, {74, 7}}},
    {0x030c01f0,
     "8000d8090ad8090af103010a0b8041e40d1290318b58f20001050f8801d80809885189068901f00301050ff406000"
     "c"
     "0dd80809d80809f305020c0bf00002050b",
     {{0, 1}, {2, 2}, {4, 3}, {6, 2}, {12, 4}, {40, 5}, {52, 4}, {54, 7}, {64, 8}, {68, 7}}},
};

}  // namespace

TEST_CASE("instructions have the lines that the interpreter gives them", "[unit]") {
  for (const Case& one : kCases) {
    const std::vector<std::byte> table = from_hex(one.table);
    for (const auto& [instruction, line] : one.lines) {
      CAPTURE(one.version, instruction);
      CHECK(python_line(one.version, table, 1, instruction) == line);
    }
  }
}

TEST_CASE("a cut or senseless line table gives no line beyond it", "[unit]") {
  for (const Case& one : kCases) {
    const std::vector<std::byte> table = from_hex(one.table);
    for (std::size_t size = 0; size <= table.size(); ++size) {
      for (std::uint32_t instruction = 0; instruction < 200; instruction += 2) {
        const std::uint32_t line =
            python_line(one.version, std::span(table).first(size), 1, instruction);
        CHECK(line < 64);
      }
    }
  }
  const std::vector<std::byte> ones(300, std::byte{0xff});
  for (const Case& one : kCases) CHECK(python_line(one.version, ones, 1, 1 << 20) < 1u << 31);
}

}  // namespace gpumemtrace::python_lines_test
