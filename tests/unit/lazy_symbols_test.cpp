// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/lazy_symbols.hpp"

#include "tests/catch.hpp"

namespace gpumemtrace::preload::lazy_symbols_test {
namespace {

TEST_CASE("a function that is looked for late is the process's own, or absent", "[unit]") {
  constinit static LazySymbol<int(const char*)> number_in{"atoi"};
  REQUIRE(number_in);
  CHECK(number_in("42") == 42);
  constinit static LazySymbol<int()> none{"gpumemtrace_function_that_nobody_has"};
  CHECK_FALSE(none);
}

}  // namespace
}  // namespace gpumemtrace::preload::lazy_symbols_test
