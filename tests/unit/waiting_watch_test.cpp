// SPDX-License-Identifier: Apache-2.0
// The times at which a thread without Python frames samples the threads that wait.

#include "preload/stacks/waiting_watch.hpp"

#include <cstdint>

#include "preload/base/clock.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::preload::waiting_watch_test {
namespace {

// An engine's thread whose events come a second apart; true for an event that takes a sample.
class EngineThread {
 public:
  bool takes_sample() {
    now_ += 1'000'000 * ticks_per_us;
    const bool is_due = try_begin_waiting_sample(now_);
    if (is_due) end_waiting_sample(now_);
    return is_due;
  }

 private:
  std::uint64_t now_ = 1;
};

}  // namespace

TEST_CASE("no sample is due after a recorded wait until a thread runs Python", "[unit]") {
  EngineThread engine;
  reset_waiting_samples();
  waiting_begins(true);
  CHECK_FALSE(engine.takes_sample());
  python_runs_here();
  CHECK(engine.takes_sample());
  CHECK_FALSE(engine.takes_sample());
}

TEST_CASE("a wait that was not recorded stays due for a sample after recorded waits", "[unit]") {
  EngineThread engine;
  reset_waiting_samples();
  REQUIRE(engine.takes_sample());
  waiting_begins(false);
  waiting_begins(true);
  waiting_begins(true);
  CHECK(engine.takes_sample());
  CHECK_FALSE(engine.takes_sample());
  waiting_begins(true);
  CHECK_FALSE(engine.takes_sample());
}

}  // namespace gpumemtrace::preload::waiting_watch_test
