// SPDX-License-Identifier: Apache-2.0
// Tests that CUPTI's clock is mapped to the job's time axis, also after other clients of CUPTI
// exchanged that clock.
#include "analyzer/model/activity/activity_clocks.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::analyzer_activity_clock_test {

using namespace gpumemtrace::analyzer;
using gpumemtrace::trace::ActivityClock;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kRealtime = 1'700'000'000 * kSecond;

ActivityClock pair_at(std::uint64_t ticks, std::uint64_t timestamp, std::uint32_t epoch = 0,
                      std::uint32_t library = 0, std::uint64_t uncertainty = 0) {
  ActivityClock pair;
  pair.record.time = ticks;
  pair.timestamp = timestamp;
  pair.epoch = epoch;
  pair.library = library;
  pair.uncertainty_ticks = uncertainty;
  return pair;
}

// A process clock of two ticks a nanosecond; the time of day is kRealtime at tick 0.
Clock process_clock() {
  return Clock(
      {{0, kSecond, kRealtime, 0}, {20 * kSecond, 11 * kSecond, kRealtime + 10 * kSecond, 0}},
      2 * kSecond);
}

}  // namespace

TEST_CASE("two pairs give CUPTI's rate, before, between and after them", "[unit]") {
  const ActivityClocks clocks({pair_at(2'000, 500), pair_at(2'000'002'000, 1'000'000'500)},
                              process_clock());
  const auto span = clocks.convert_to_ticks(0, 700, 900, 5'000'000'000);
  REQUIRE(span.has_value());
  CHECK(span->start == 2'400);
  CHECK(span->end == 2'800);
  CHECK(clocks.convert_to_ticks(0, 1, 2, 5'000'000'000)->start == 1'002);
  CHECK(clocks.convert_to_ticks(0, 2'000'000'500, 2'000'000'501, 5'000'000'000)->start ==
        4'000'002'000);
}

TEST_CASE("with one pair the rate is known where the clock is the time of day", "[unit]") {
  const ActivityClocks clocks({pair_at(2'000, kRealtime + 1'000)}, process_clock());
  const auto span = clocks.convert_to_ticks(0, kRealtime + 5'000, kRealtime + 5'100, kSecond);
  REQUIRE(span.has_value());
  CHECK(span->start == 10'000);
  CHECK(span->ticks() == 200);
}

TEST_CASE("with one pair a clock that reads the ticks themselves is known, another is not",
          "[unit]") {
  const ActivityClocks ticks({pair_at(2'000, 2'010, 1, 0, 20)}, process_clock());
  CHECK(ticks.convert_to_ticks(0, 3'000, 3'100, kSecond)->ticks() == 100);
  const ActivityClocks foreign({pair_at(2'000, 77, 1)}, process_clock());
  CHECK_FALSE(foreign.convert_to_ticks(0, 80, 90, kSecond).has_value());
  const ActivityClocks wrong({pair_at(2'000, 77, 0)}, process_clock());
  CHECK_FALSE(wrong.convert_to_ticks(0, 80, 90, kSecond).has_value());
}

TEST_CASE("a record belongs to the clock under which it began just before it was taken over",
          "[unit]") {
  ActivityClocks clocks({pair_at(0, kRealtime), pair_at(10 * kSecond, kRealtime + 5 * kSecond)},
                        process_clock());
  // Another client sets a clock that shows the ticks.
  clocks.add(pair_at(11 * kSecond, 11 * kSecond, 1));
  clocks.add(pair_at(13 * kSecond, 13 * kSecond, 1));
  // The first record began before the exchange of the clock, and the recorder took it over long
  // after the exchange.
  CHECK(
      clocks
          .convert_to_ticks(0, kRealtime + 4 * kSecond, kRealtime + 4 * kSecond + 10, 14 * kSecond)
          ->start == 8 * kSecond);
  CHECK(clocks.convert_to_ticks(0, 12 * kSecond, 12 * kSecond + 10, 14 * kSecond)->start ==
        12 * kSecond);
}

TEST_CASE("a clock under which a record lasts too long does not hide an earlier one", "[unit]") {
  // By the first clock, the record began a second before the recorder took it over, and lasts for
  // days; by the second clock, it began ten seconds before.
  const ActivityClocks clocks(
      {pair_at(0, 1'000), pair_at(10 * kSecond, 2'000), pair_at(kSecond, 2'000, 1),
       pair_at(2 * kSecond, kSecond + 2'000, 1)},
      process_clock());
  const auto span = clocks.convert_to_ticks(0, 2'000, 100'002'000, 11 * kSecond);
  REQUIRE(span.has_value());
  CHECK(span->start == kSecond);
  CHECK(span->ticks() == 100'000'000);
}

TEST_CASE("copies of libcupti have clocks of their own", "[unit]") {
  const ActivityClocks clocks({pair_at(0, 100, 0, 0), pair_at(kSecond, kSecond + 100, 0, 0),
                               pair_at(0, 900, 0, 1), pair_at(kSecond, 2 * kSecond + 900, 0, 1)},
                              process_clock());
  CHECK(clocks.convert_to_ticks(0, 1'100, 1'200, 2 * kSecond)->start == 1'000);
  CHECK(clocks.convert_to_ticks(1, 1'100, 1'200, 2 * kSecond)->start == 100);
  CHECK_FALSE(clocks.convert_to_ticks(2, 1'100, 1'200, 2 * kSecond).has_value());
}

TEST_CASE("times that no clock explains are not converted", "[unit]") {
  const ActivityClocks clocks({pair_at(0, kRealtime), pair_at(2 * kSecond, kRealtime + kSecond)},
                              process_clock());
  CHECK_FALSE(clocks.convert_to_ticks(0, 0, 0, kSecond).has_value());
  CHECK_FALSE(clocks.convert_to_ticks(0, kRealtime + 10, kRealtime + 5, kSecond).has_value());
  CHECK_FALSE(clocks.convert_to_ticks(0, 12'345, 12'400, kSecond).has_value());
  CHECK_FALSE(clocks.convert_to_ticks(0, ~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0})
                  .has_value());
}

TEST_CASE("the error is what a pair is off the line through its neighbours, and its own",
          "[unit]") {
  const ActivityClocks clocks({pair_at(0, kSecond), pair_at(kSecond + 400, 2 * kSecond, 0, 0, 60),
                               pair_at(2 * kSecond, 3 * kSecond, 0, 0, 0)},
                              process_clock());
  CHECK(clocks.error_ticks() == 430 + 30);
}

TEST_CASE("before the first pair CUPTI's clock is the time of day", "[unit]") {
  const ActivityClocks clocks(
      {pair_at(6 * kSecond, 6 * kSecond, 1), pair_at(8 * kSecond, 8 * kSecond, 1)},
      process_clock());
  const auto span =
      clocks.convert_to_ticks(0, kRealtime + kSecond, kRealtime + kSecond + 50, 7 * kSecond);
  REQUIRE(span.has_value());
  CHECK(span->start == 2 * kSecond);
  CHECK(span->ticks() == 100);
}

}  // namespace gpumemtrace::analyzer_activity_clock_test
