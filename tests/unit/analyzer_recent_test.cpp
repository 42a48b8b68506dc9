#include <cstdint>

#include "analyzer/model/api_calls.hpp"
#include "analyzer/recent.hpp"
#include "tests/catch.hpp"

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
  CHECK(calls.find(kLibrary + 5) == nullptr);
  calls.set(kLibrary + 5, 50, Unjoined::kNoCall);
  calls.set(kLibrary + 6, 0, Unjoined::kUnknownThread);
  calls.set(2 * kLibrary + 5, 70, Unjoined::kNoCall);
  REQUIRE(calls.find(kLibrary + 5) != nullptr);
  CHECK(calls.find(kLibrary + 5)->first == 50);
  CHECK(calls.find(kLibrary + 6)->reason == Unjoined::kUnknownThread);
  CHECK(calls.find(2 * kLibrary + 5)->first == 70);
  // A neighbour on the same page is not known for that.
  CHECK(calls.find(kLibrary + 4) == nullptr);
  const auto set_page = [&](std::uint64_t page) {
    calls.set(3 * kLibrary + page * ApiCalls::kPageCalls, page + 1, Unjoined::kNoCall);
  };
  for (std::uint64_t page = 0; page < ApiCalls::kMaxPages - 2; ++page) set_page(page);
  CHECK(calls.find(kLibrary + 5) != nullptr);
  set_page(ApiCalls::kMaxPages);
  CHECK(calls.find(kLibrary + 5) == nullptr);
  CHECK(calls.find(2 * kLibrary + 5) != nullptr);
  // Its page can come again, without what was on it.
  calls.set(kLibrary + 4, 40, Unjoined::kNoCall);
  CHECK(calls.find(kLibrary + 4)->first == 40);
  CHECK(calls.find(kLibrary + 5) == nullptr);
}
