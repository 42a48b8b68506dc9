// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "preload/session/observation.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::sample_schedule_test {

using gpumemtrace::preload::SampleSchedule;

namespace {

constexpr std::uint64_t kMs = 1'000'000;

// The times of the samples in ms, if the schedule is asked each millisecond and a change comes at
// each time of `changes`.
std::vector<std::uint64_t> samples(const std::vector<std::uint64_t>& changes, std::uint64_t end) {
  SampleSchedule schedule;
  std::vector<std::uint64_t> taken;
  std::size_t next = 0;
  for (std::uint64_t now = 1; now <= end; ++now) {
    for (; next < changes.size() && changes[next] == now; ++next) schedule.change_seen(now * kMs);
    if (!schedule.is_due(now * kMs)) continue;
    schedule.sampled(now * kMs);
    taken.push_back(now);
  }
  return taken;
}

}  // namespace

TEST_CASE("a change is sampled at once and followed up until a second is over", "[unit]") {
  CHECK(samples({}, 1000).empty());
  CHECK(samples({10}, 4000) == std::vector<std::uint64_t>{10, 60, 160, 360, 760, 1560});
}

TEST_CASE("however many changes there are, at most twenty samples a second are taken", "[unit]") {
  std::vector<std::uint64_t> changes;
  for (std::uint64_t ms = 1; ms <= 1000; ++ms) changes.push_back(ms);
  const std::vector<std::uint64_t> taken = samples(changes, 1000);
  CHECK(taken.size() == 20);
  CHECK(taken.front() == 1);
}

TEST_CASE("the last of many changes is sampled, too", "[unit]") {
  const std::vector<std::uint64_t> taken = samples({10, 20, 30, 59}, 100);
  CHECK(taken == std::vector<std::uint64_t>{10, 60});
  CHECK(samples({10, 61}, 111) == std::vector<std::uint64_t>{10, 60, 110});
}

TEST_CASE("a sample that has to wait is tried again, and the pause says when", "[unit]") {
  SampleSchedule schedule;
  CHECK(schedule.pause_ns(5 * kMs, 100 * kMs) == 100 * kMs);
  schedule.change_seen(5 * kMs);
  CHECK(schedule.pause_ns(5 * kMs, 100 * kMs) == 0);
  schedule.postponed(5 * kMs);
  CHECK_FALSE(schedule.is_due(5 * kMs));
  CHECK(schedule.pause_ns(5 * kMs, 100 * kMs) == kMs);
  CHECK(schedule.is_due(6 * kMs));
  schedule.sampled(6 * kMs);
  CHECK(schedule.pause_ns(16 * kMs, 100 * kMs) == 40 * kMs);
}

TEST_CASE("a change before the first context is over with its last look", "[unit]") {
  SampleSchedule schedule;
  schedule.change_seen(kMs);
  std::uint64_t now = kMs;
  for (int looks = 0; looks < 6; ++looks) {
    now += schedule.pause_ns(now, ~std::uint64_t{0});
    CHECK(schedule.is_due(now));
    schedule.passed_over(now);
  }
  CHECK_FALSE(schedule.is_due(now + 3'600'000 * kMs));
}

}  // namespace gpumemtrace::sample_schedule_test
