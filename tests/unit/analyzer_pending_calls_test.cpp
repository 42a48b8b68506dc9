// SPDX-License-Identifier: Apache-2.0
// Tests the search among calls that still wait for CUPTI's records.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "analyzer/model/activity/pending_calls.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::analyzer_pending_calls_test {

using namespace gpumemtrace::analyzer;
namespace trace = gpumemtrace::trace;

namespace {

trace::Thread thread_with(std::uint64_t id) {
  trace::Thread thread;
  thread.thread_id = id;
  return thread;
}

}  // namespace

TEST_CASE("a thread is found although it was asked for before it was known", "[unit]") {
  PendingCalls calls;
  calls.add_thread(1, thread_with(100));
  CHECK(calls.threads_of(200).empty());
  CHECK(calls.threads_of(200).empty());
  calls.add_thread(2, thread_with(200));
  REQUIRE(calls.threads_of(200).size() == 1);
  CHECK(calls.threads_of(100) != calls.threads_of(200));
}

TEST_CASE("a thread's first call that ends from a time on is found, whatever was asked before",
          "[unit]") {
  constexpr std::uint64_t kLast = 10'000;
  PendingCalls calls;
  calls.add_thread(1, thread_with(100));
  std::mt19937_64 random(5);
  std::vector<std::uint64_t> ends;
  for (std::uint64_t now = 0; now < kLast;) {
    const std::uint64_t start = now + 1 + random() % 30;
    now = start + random() % 10;
    calls.add(1, start, now);
    ends.push_back(now);
    // The copies of one batch call share their times.
    if (random() % 8 != 0) continue;
    calls.add(1, start, now);
    ends.push_back(now);
  }
  const PendingCalls::Thread& thread = calls.thread(calls.threads_of(100).front());
  const auto check = [&](std::uint64_t ticks) {
    const auto found = thread.first_ending_from(ticks) - thread.calls.begin();
    REQUIRE(found == std::lower_bound(ends.begin(), ends.end(), ticks) - ends.begin());
  };
  for (std::uint64_t ticks = 0; ticks < kLast + 50; ticks += random() % 20) check(ticks);
  for (int i = 0; i < 1000; ++i) check(random() % (kLast + 50));
}

}  // namespace gpumemtrace::analyzer_pending_calls_test
