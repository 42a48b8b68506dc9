// SPDX-License-Identifier: Apache-2.0
#include "tools/base/lines.hpp"

#include "tests/catch.hpp"
#include "tools/base/terminal.hpp"

namespace gpumemtrace::tools::lines_test {
namespace {

std::string text_of(const Lines& lines) {
  std::string text;
  for (const StyledText& line : lines) text += line.letters() + "\n";
  return text;
}

TEST_CASE("words are wrapped below the text behind the head", "[unit]") {
  CHECK(text_of(wrapped("Next  ", "one two three", 12)) == "Next  one\n      two\n      three\n");
  CHECK(text_of(wrapped("", "one two three", 9, 2)) == "one two\n  three\n");
  CHECK(text_of(wrapped("", "abcdefgh", 4)) == "abcd\nefgh\n");
}

TEST_CASE("parts that do not fit are counted", "[unit]") {
  CHECK(text_of(wrapped_parts("  ", {"aaa", "bbb", "ccc"}, ", ", 11)) == "  aaa, bbb,\n  ccc\n");
  CHECK(text_of(wrapped_parts("  ", {"aaa", "bbb", "ccc", "ddd"}, ", ", 19, 1)) ==
        "  aaa, bbb, 2 more\n");
  CHECK(text_of(wrapped_parts("    ", {"aaa", "bbb"}, " + ", 8)) == "    aaa\n  + bbb\n");
}

TEST_CASE("a part longer than a line is broken at a space of it", "[unit]") {
  CHECK(text_of(wrapped_parts("  ", {"aaa bbbb > ccccc 1 MiB"}, ", ", 16)) ==
        "  aaa bbbb >\n  ccccc 1 MiB\n");
}

TEST_CASE("a broken line keeps its columns and its long words", "[unit]") {
  CHECK(text_of(broken("  a   b ccc", 8)) == "  a   b\n    ccc\n");
  CHECK(text_of(broken("abcdefghij", 4)) == "abcdefghij\n");
}

TEST_CASE("a text that is too long is cut", "[unit]") {
  CHECK(cut("abcdef", 6) == "abcdef");
  CHECK(cut("abcdefg", 6) == "abc...");
  CHECK(cut("abcdefg", 6, "..") == "abcd..");
  CHECK(cut("abcdefg", 2) == "..");
  CHECK(cut("abcdefg", 0).empty());
}

TEST_CASE("a cut does not split a character", "[unit]") {
  CHECK(cut("ab\u00e9defg", 6) == "ab...");
  CHECK(cut("a\u00e9defgh", 6) == "a\u00e9...");
}

TEST_CASE("a style has its colour, and the same word without it has none", "[unit]") {
  const StyledText text =
      heading("Leaks") + "  see the\n  Leaks of\n" + StyledText("FAIL", Style::kBad) + " \x1b[2J\n";
  CHECK(styled(text, {0, true}) ==
        "\x1b[1mLeaks\x1b[0m  see the\n  Leaks of\n\x1b[1;31mFAIL\x1b[0m \\x1b[2J\n");
  CHECK(styled(text, {0, false}) == "Leaks  see the\n  Leaks of\nFAIL \\x1b[2J\n");
  CHECK(styled(heading("Leaks") + " one two three", {12, true}) ==
        "\x1b[1mLeaks\x1b[0m one\n  two three\n");
}

}  // namespace
}  // namespace gpumemtrace::tools::lines_test
