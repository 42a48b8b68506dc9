// SPDX-License-Identifier: Apache-2.0
#include "analyzer/base/printable.hpp"

#include "tests/catch.hpp"

namespace gpumemtrace::analyzer::printable_test {

TEST_CASE("what a reader sees as letters stays as it is", "[unit]") {
  for (const char* const text : {"", "std::vector<int>::push_back(a b)",
                                 "\xc3\xa4 \xe7\xa8\x8b\xe5\xba\x8f \xf0\x9f\x98\x80", "a#b # c",
                                 "operator()::x", "### a ##b", "\\x0a"}) {
    CHECK(printable(text) == text);
  }
}

TEST_CASE("control characters, marks of direction and what is no UTF-8 have escapes", "[unit]") {
  using namespace std::string_view_literals;
  CHECK(printable("a\x1b[31m\r\n\t\0\x7f"sv) == R"(a\x1b[31m\x0d\x0a\x09\x00\x7f)");
  CHECK(printable("\xc2\x9b\xe2\x80\xae\xe2\x81\xa7\xe2\x80\xa8\xd8\x9c") ==
        R"(\x9b\u202e\u2067\u2028\u061c)");
  CHECK(printable("\xef\xbf\xbe\xef\xbf\xbf\xef\xbb\xbf\xf0\x9f\xbf\xbf") ==
        R"(\ufffe\uffff\ufeff\U0001ffff)");
  CHECK(printable("caf\xe9.py") == R"(caf\xe9.py)");
  // Python keeps the byte 0xe9 of a file name as this surrogate.
  CHECK(printable("caf\xed\xb3\xa9.py") == R"(caf\xe9.py)");
  CHECK(printable("\xed\xa0\x80|\xc0\xaf|\xf4\x90\x80\x80|\xe2\x82|\xf0\x9f") ==
        R"(\ud800|\xc0\xaf|\xf4\x90\x80\x80|\xe2\x82|\xf0\x9f)");
}

TEST_CASE("no name begins a command of a build server", "[unit]") {
  CHECK(printable("::error file=a::b") == R"(\x3a:error file=a::b)");
  CHECK(printable("f \n::error::x") == R"(f \x0a\x3a:error::x)");
  CHECK(printable("f ::error::x ##[error]y ##vso[z]") ==
        R"(f \x3a:error::x \x23#[error]y \x23#vso[z])");
}

TEST_CASE("lines stay lines, and what is printable is so once and for all", "[unit]") {
  CHECK(printable_lines("a\n  b\r\n::c\n") == "a\n  b\\x0d\n\\x3a:c\n");
  for (const char* const text : {"\x1b\n", "::a", "\xed\xb3\xa9", "##["}) {
    CHECK(printable(printable(text)) == printable(text));
  }
}

}  // namespace gpumemtrace::analyzer::printable_test
