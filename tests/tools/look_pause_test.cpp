// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.hpp"
#include "tools/live/live_screen.hpp"

namespace gpumemtrace::look_pause_test {

using namespace gpumemtrace::tools;
using namespace std::chrono_literals;

TEST_CASE("looks take some 2 % of a processor, as long as they come every ten seconds", "[unit]") {
  CHECK(pause_after_look(0ms, 1s) == 1s);
  CHECK(pause_after_look(100ms, 1s) == 5s);
  CHECK(pause_after_look(300ms, 1s) == 10s);
  CHECK(pause_after_look(5s, 1s) == 10s);
  CHECK(pause_after_look(5s, 1h) == 1h);
}

}  // namespace gpumemtrace::look_pause_test
