// SPDX-License-Identifier: Apache-2.0
// The peaks of a card whose log has more changes than it can keep.
#include "analyzer/cards/card_results.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "analyzer/model/accounts/card_log.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::analyzer::card_results_test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kTotal = 80'000 * kMiB;
constexpr std::size_t kFewChanges = 64;

// The log as report rows, for a process whose ticks are nanoseconds.
rows::CardHistory history_of(const CardLog& log, const char* process) {
  rows::CardHistory history;
  history.process = process;
  history.total_bytes = kTotal;
  for (const CardLogEvent& event : log.events()) history.events.push_back({event.time, event.what});
  for (const CardLogChange& change : log.changes()) {
    history.changes.push_back({change.allocated_bytes, change.pool_reserved, change.rounding_bytes,
                               change.unknown_bytes});
  }
  for (const trace::MemorySample& sample : log.samples()) {
    history.samples.push_back({sample});
  }
  for (const CardLogUse& use : log.uses()) {
    history.uses.push_back({use.time, use.framework_allocated, use.pool_used});
  }
  history.uses_are_left_out = log.uses_are_left_out();
  history.owners.push_back({true, std::nullopt});
  for (const GroupBytesChange& holder : log.holders()) {
    history.owners_changes.push_back({holder.change, 0, static_cast<std::int64_t>(holder.bytes)});
  }
  std::ranges::sort(history.owners_changes, {}, &rows::CardOwnersChange::change);
  return history;
}

void sample(CardLog& log, std::uint64_t now, std::uint64_t in_use) {
  trace::MemorySample sample;
  sample.source = trace::SampleSource::kMemGetInfo;
  sample.total_bytes = kTotal;
  sample.free_bytes = kTotal - in_use;
  log.sample(now, sample);
}

// A process that allocates and frees at random, and writes the same events to all logs. The tests
// add samples of the memory in use: the sum of the processes' `held_bytes`, and 50 MiB more.
struct RandomProcess {
  std::mt19937 random;
  std::vector<CardLog*> logs;
  std::uint64_t held_bytes = 0;
  std::vector<LiveAllocation> live;

  void step(std::uint64_t now) {
    const bool allocates = live.empty() || random() % 100 < 50;
    if (allocates) {
      live.push_back({.bytes = (1 + random() % 40) * kMiB, .born = now});
      held_bytes += live.back().bytes;
    } else {
      std::swap(live[random() % live.size()], live.back());
      held_bytes -= live.back().bytes;
      for (CardLog* log : logs) log->end(live.back());
      live.pop_back();
    }
    // The bytes of the framework's blocks are a random part of its segments.
    const std::uint64_t allocated = held_bytes * (random() % 100) / 100;
    for (CardLog* log : logs) log->set_use(ledger::Level::kFramework, allocated, now);
    for (CardLog* log : logs) log->change(now, {held_bytes, 0, held_bytes % (3 * kMiB), 0});
  }
};

}  // namespace

TEST_CASE("a process alone on its card loses nothing when its changes are thinned", "[unit]") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    CardLog whole;
    CardLog thinned(kFewChanges, kFewChanges);
    RandomProcess process{std::mt19937(seed), {&whole, &thinned}, 0, {}};
    for (std::uint64_t now = 1; now < 5'000; ++now) {
      process.step(now);
      if (now % 700 == 0) {
        for (CardLog* log : process.logs) sample(*log, now, process.held_bytes + 50 * kMiB);
      }
    }
    CHECK(thinned.changes().size() <= 4 * kFewChanges);
    const rows::CardHistory all = history_of(whole, "p1");
    const rows::CardHistory few = history_of(thinned, "p1");
    const rows::CardHistory* const one[] = {&all};
    const rows::CardHistory* const other[] = {&few};
    const CardResults expected = card_results(one);
    const CardResults results = card_results(other);
    REQUIRE(results.peaks.size() == expected.peaks.size());
    for (std::size_t i = 0; i < results.peaks.size(); ++i) {
      const rows::CardPeak& row = results.peaks[i];
      CHECK(row.bytes == expected.peaks[i].bytes);
      CHECK(row.low_bytes == expected.peaks[i].low_bytes);
      CHECK(row.high_bytes == expected.peaks[i].high_bytes);
      CHECK(row.is_exact == expected.peaks[i].is_exact);
      CHECK(row.time_ns == expected.peaks[i].time_ns);
      REQUIRE(row.parts.size() == expected.peaks[i].parts.size());
      for (std::size_t part = 0; part < row.parts.size(); ++part) {
        CHECK(row.parts[part].what == expected.peaks[i].parts[part].what);
        CHECK(row.parts[part].bytes == expected.peaks[i].parts[part].bytes);
      }
    }
    CHECK(results.physical_peak->bytes == expected.physical_peak->bytes);
    CHECK(results.physical_peak->time_ns == expected.physical_peak->time_ns);
    CHECK(results.physical_peak->is_exact);
  }
}

TEST_CASE("where thinned changes of several processes meet, the range has the peak", "[unit]") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    CardLog whole[2];
    CardLog thinned[2]{CardLog(kFewChanges, kFewChanges), CardLog(kFewChanges, kFewChanges)};
    RandomProcess first{std::mt19937(seed), {&whole[0], &thinned[0]}, 0, {}};
    RandomProcess second{std::mt19937(seed + 100), {&whole[1], &thinned[1]}, 0, {}};
    for (std::uint64_t now = 2; now < 5'000; now += 2) {
      first.step(now);
      second.step(now + 1);
      if (now % 700 != 0) continue;
      const std::uint64_t in_use = first.held_bytes + second.held_bytes + 50 * kMiB;
      sample(whole[0], now + 1, in_use);
      sample(thinned[0], now + 1, in_use);
    }
    const rows::CardHistory all[2]{history_of(whole[0], "p1"), history_of(whole[1], "p2")};
    const rows::CardHistory few[2]{history_of(thinned[0], "p1"), history_of(thinned[1], "p2")};
    const rows::CardHistory* const ones[] = {&all[0], &all[1]};
    const rows::CardHistory* const others[] = {&few[0], &few[1]};
    const rows::CardPeak expected = card_results(ones).peaks.front();
    const CardResults results = card_results(others);
    CHECK(results.peaks.front().low_bytes <= expected.low_bytes);
    CHECK(results.peaks.front().high_bytes >= expected.high_bytes);
    CHECK_FALSE(results.peaks.front().is_exact);
    CHECK_FALSE(results.physical_peak->is_exact);
  }
}

}  // namespace gpumemtrace::analyzer::card_results_test
