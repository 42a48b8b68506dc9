// SPDX-License-Identifier: Apache-2.0
// Findings if other settings of PyTorch's allocator were replayed on the recorded run.
#include <string>

#include "analyzer/rules/rules.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::rules_replayed_test {

using namespace gpumemtrace::analyzer;

namespace {

constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint64_t kGib = 1 << 30;

// A process that reserved 4 GiB for blocks of 2 GiB when its fragmentation was worst.
rows::Report fragmented_report() {
  rows::Report report;
  rows::Fragmentation& row = report.fragmentation.emplace_back();
  row.process = "p1";
  row.device = "d0";
  row.level = Level::kFramework;
  row.at = rows::SnapshotAt::kWorst;
  row.reserved_bytes = 4 * kGib;
  row.allocated_bytes = 2 * kGib;
  row.free_bytes = 2 * kGib;
  row.largest_free_bytes = 100 * kMib;
  row.unusable_bytes = 2 * kGib;
  return report;
}

rows::Oom failure_of(OomOutcome outcome, rows::OomVerdict verdict) {
  rows::Oom row;
  row.process = "p1";
  row.device = "d0";
  row.level = outcome == OomOutcome::kRecovered ? Level::kDriver : Level::kFramework;
  row.time_ns = 5'000'000;
  row.outcome = outcome;
  row.verdict = verdict;
  row.count = 1;
  row.requested_bytes = kGib;
  row.free_bytes = 2 * kGib;
  row.largest_free_bytes = 100 * kMib;
  return row;
}

rows::ReplayedSetting setting(const std::string& options, std::uint64_t low, std::uint64_t high) {
  rows::ReplayedSetting row;
  row.options = options;
  row.low_bytes = low;
  row.high_bytes = high;
  row.is_sampled = low != high;
  return row;
}

rows::ReplayedAllocator allocator_with(std::vector<rows::ReplayedSetting> others) {
  rows::ReplayedAllocator row;
  row.process = "p1";
  row.device = "d0";
  row.reserved_peak_bytes = 4 * kGib;
  row.others = std::move(others);
  return row;
}

std::string fix_of(const rows::Report& report, const rows::ReplayedAllocator& allocator,
                   Rule rule = Rule::kFragmentation) {
  rows::Observations seen;
  seen.replayed.push_back(allocator);
  for (const rows::Finding& finding : find_all({report, seen, Thresholds()})) {
    if (finding.rule == rule) return finding.fix;
  }
  return "no such finding";
}

std::string fix_of(const rows::ReplayedAllocator& allocator) {
  return fix_of(fragmented_report(), allocator);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A run that was refused 1 GiB; a replay of its recorded settings was refused it, too.
rows::ReplayedAllocator refused_with(std::vector<rows::ReplayedSetting> others) {
  rows::ReplayedAllocator row = allocator_with(std::move(others));
  row.refused.push_back({5'000'100, kGib, true, 300 * kMib});
  return row;
}

rows::ReplayedSetting meeting(rows::ReplayedSetting row, std::optional<bool> meets) {
  row.meets = {meets};
  return row;
}

std::string fix_of_failure(const rows::ReplayedAllocator& allocator,
                           rows::OomVerdict verdict = rows::OomVerdict::kFragmented) {
  rows::Report report;
  report.oom.push_back(failure_of(OomOutcome::kRaised, verdict));
  rows::Device& device = report.devices.emplace_back();
  device.id = "d0";
  device.total_bytes = 8 * kGib;
  return fix_of(report, allocator, Rule::kOutOfMemory);
}

}  // namespace

TEST_CASE("fragmentation: the setting that reserves least is named with what it reserves",
          "[unit]") {
  CHECK(fix_of(allocator_with({setting("expandable_segments:True", 3 * kGib, 3 * kGib),
                               setting("", 3 * kGib + kMib, 3 * kGib + kMib)})) ==
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: 3.0 GiB reserved at most instead of "
        "4.0 GiB (replayed), with no change of the program.");
  CHECK(contains(fix_of(allocator_with({setting("", 2 * kGib, 2 * kGib)})),
                 "Leave PYTORCH_CUDA_ALLOC_CONF empty: 2.0 GiB"));
  CHECK(
      contains(fix_of(allocator_with({setting("expandable_segments:True", 2 * kGib, 3 * kGib)})),
               "2.0 GiB to 3.0 GiB reserved at most instead of 4.0 GiB (replayed; sizes sampled)"));
}

TEST_CASE("fragmentation: what is no better or worse is not recommended", "[unit]") {
  for (const std::uint64_t bytes : {4 * kGib - kMib, 4 * kGib, 9 * kGib}) {
    const std::string fix =
        fix_of(allocator_with({setting("expandable_segments:True", bytes, bytes)}));
    CHECK_FALSE(contains(fix, "Set PYTORCH"));
    CHECK(contains(fix, "save less than 5 % of what is reserved, or nothing (replayed)"));
  }
  const std::string unknown =
      fix_of(allocator_with({setting("expandable_segments:True", 3 * kGib, 5 * kGib)}));
  CHECK(contains(unknown, "expandable_segments:True may or may not help: 3.0 GiB to 5.0 GiB"));
  rows::ReplayedSetting loses = setting("expandable_segments:True", kGib, kGib);
  loses.loses_requests = true;
  CHECK_FALSE(contains(fix_of(allocator_with({loses})), "Set PYTORCH"));
}

TEST_CASE("fragmentation: without a proof it is arithmetic, never what was set already", "[unit]") {
  CHECK(contains(fix_of(allocator_with({})), "up to 2.0 GiB would be usable again (arithmetic)"));
  rows::ReplayedAllocator expandable = allocator_with({});
  expandable.is_expandable = true;
  CHECK_FALSE(contains(fix_of(expandable), "expandable_segments"));
}

TEST_CASE("out of memory: the setting is named that meets this request, and no more said",
          "[unit]") {
  const std::string fix = fix_of_failure(
      refused_with({meeting(setting("", 3 * kGib, 3 * kGib), false),
                    meeting(setting("expandable_segments:True", 5 * kGib, 5 * kGib), true)}));
  CHECK(contains(fix,
                 "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: this request would have "
                 "been met (replayed)"));
  CHECK(contains(fix, "What happens after this request is not known."));
}

TEST_CASE("out of memory: a setting that hardly helps does not come first", "[unit]") {
  const std::uint64_t with_request = 5 * kGib;
  const auto fix_with = [&](std::uint64_t reserved) {
    return fix_of_failure(
        refused_with({meeting(setting("max_split_size_mb:128", reserved, reserved), true)}),
        rows::OomVerdict::kExhausted);
  };
  const std::string just_so = fix_with(with_request - 100 * kMib);
  CHECK_FALSE(contains(just_so, "Set PYTORCH"));
  CHECK(contains(just_so,
                 "With max_split_size_mb:128 this one request would have been met "
                 "(replayed), and hardly any after it."));
  CHECK(contains(fix_with(with_request - kGib), "Set PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb"));
}

TEST_CASE("out of memory: where no setting meets the request, how much less is said", "[unit]") {
  const auto none =
      refused_with({meeting(setting("expandable_segments:True", 3 * kGib, 3 * kGib), false)});
  const std::string fix = fix_of_failure(none);
  CHECK(contains(fix, "at most 300.0 MiB (replayed)"));
  CHECK(contains(fix,
                 "No other setting of PyTorch's allocator meets this request (replayed: "
                 "expandable_segments:True)"));
  CHECK_FALSE(contains(fix, "Set PYTORCH"));
  CHECK(contains(fix_of_failure(none, rows::OomVerdict::kExhausted), "No other setting"));
}

TEST_CASE("out of memory: what the replays do not agree on is left to arithmetic", "[unit]") {
  auto unknown = refused_with(
      {meeting(setting("expandable_segments:True", 3 * kGib, 3 * kGib), std::nullopt)});
  CHECK(contains(fix_of_failure(unknown), "(arithmetic)"));
  CHECK_FALSE(contains(fix_of_failure(unknown), "(replayed)"));
  // An answer does not count as replayed if the replay was refused another request than the run, or
  // if a replay of the recorded settings meets the request.
  unknown.others[0].meets = {true};
  unknown.refused[0].bytes = 2 * kGib;
  CHECK_FALSE(contains(fix_of_failure(unknown), "(replayed)"));
  unknown.refused[0] = {5'000'100, kGib, false, 0};
  CHECK_FALSE(contains(fix_of_failure(unknown), "(replayed)"));
}

TEST_CASE("retries: a setting is named only where it has fewer", "[unit]") {
  rows::Report report;
  report.oom.push_back(failure_of(OomOutcome::kRecovered, rows::OomVerdict::kFragmented));
  rows::ReplayedAllocator allocator =
      allocator_with({setting("expandable_segments:True", 3 * kGib, 3 * kGib)});
  allocator.retries = 7;
  CHECK(contains(
      fix_of(report, allocator, Rule::kOutOfMemoryRecovered),
      "expandable_segments:True: 0 retries of PyTorch's allocator instead of 7 (replayed)"));
  allocator.others[0].most_retries = 7;
  const std::string fix = fix_of(report, allocator, Rule::kOutOfMemoryRecovered);
  CHECK_FALSE(contains(fix, "Set PYTORCH"));
  CHECK(contains(fix, "No other setting of PyTorch's allocator retries less often (replayed"));
}

TEST_CASE("only allocators with such a finding are worth a replay", "[unit]") {
  rows::Report report = fragmented_report();
  REQUIRE(allocators_to_replay(report, Thresholds()).size() == 1);
  CHECK_FALSE(allocators_to_replay(report, Thresholds())[0].was_refused);
  report.fragmentation[0].unusable_bytes = kMib;
  CHECK(allocators_to_replay(report, Thresholds()).empty());
  report.oom.push_back(failure_of(OomOutcome::kRaised, rows::OomVerdict::kExhausted));
  REQUIRE(allocators_to_replay(report, Thresholds()).size() == 1);
  CHECK(allocators_to_replay(report, Thresholds())[0].was_refused);
  report.fragmentation.clear();  // PyTorch had no blocks
  CHECK(allocators_to_replay(report, Thresholds()).empty());
}

}  // namespace gpumemtrace::rules_replayed_test
