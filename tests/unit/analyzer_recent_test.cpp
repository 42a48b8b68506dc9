// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "analyzer/base/recent.hpp"
#include "analyzer/model/activity/pending_calls.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::analyzer_recent_test {

using namespace gpumemtrace::analyzer;

TEST_CASE("a list of the recent ones keeps numbers and forgets the oldest", "[unit]") {
  constexpr std::uint64_t kMost = 8;
  Recent<std::uint64_t, kMost> recent;
  CHECK(recent.find(0) == nullptr);
  CHECK(recent.find(1) == nullptr);
  for (std::uint64_t number = 1; number <= 100; ++number) {
    recent.add() = 7 * number;
    REQUIRE(recent.last() == number);
    const std::uint64_t first = number <= kMost ? 1 : number - kMost + 1;
    REQUIRE(recent.first() == first);
    REQUIRE(recent.is_full() == (number >= kMost));
    for (std::uint64_t known = first; known <= number; ++known) {
      REQUIRE(recent.find(known) != nullptr);
      REQUIRE(*recent.find(known) == 7 * known);
    }
    REQUIRE(recent.find(first - 1) == nullptr);
    REQUIRE(recent.find(number + 1) == nullptr);
  }
}

TEST_CASE("calls are known by their correlation until many others have come", "[unit]") {
  constexpr std::uint64_t kLibrary = std::uint64_t{1} << 32;
  ApiCalls calls;
  CHECK_FALSE(calls.find(kLibrary + 5).is_known());
  (void)calls.add(kLibrary + 5, 50, Unjoined::kNoCall);
  (void)calls.add(kLibrary + 6, 0, Unjoined::kUnknownThread);
  (void)calls.add(2 * kLibrary + 5, 70, Unjoined::kNoCall);
  REQUIRE(calls.find(kLibrary + 5).is_known());
  CHECK(calls.find(kLibrary + 5).first == 50);
  CHECK(calls.find(kLibrary + 6).reason == Unjoined::kUnknownThread);
  CHECK(calls.find(2 * kLibrary + 5).first == 70);
  // add() refuses a second entry for a known call.
  CHECK_FALSE(calls.add(kLibrary + 5, 51, Unjoined::kNoCall));
  CHECK(calls.find(kLibrary + 5).first == 50);
  // The call with the preceding id stays unknown although a known call is on the same page.
  CHECK_FALSE(calls.find(kLibrary + 4).is_known());
  const auto add_page = [&](std::uint64_t page) {
    (void)calls.add(3 * kLibrary + page * ApiCalls::kPageCalls, page + 1, Unjoined::kNoCall);
  };
  for (std::uint64_t page = 0; page < ApiCalls::kMaxPages - 2; ++page) add_page(page);
  CHECK(calls.find(kLibrary + 5).is_known());
  add_page(ApiCalls::kMaxPages);
  CHECK_FALSE(calls.find(kLibrary + 5).is_known());
  CHECK(calls.find(2 * kLibrary + 5).is_known());
  // The page that was dropped can be added again; the calls that were on it stay unknown.
  (void)calls.add(kLibrary + 4, 40, Unjoined::kNoCall);
  CHECK(calls.find(kLibrary + 4).first == 40);
  CHECK_FALSE(calls.find(kLibrary + 5).is_known());
}

}  // namespace gpumemtrace::analyzer_recent_test
