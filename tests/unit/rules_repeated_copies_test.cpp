// SPDX-License-Identifier: Apache-2.0
// Copies that send the same bytes again, told by the hashes of what they sent.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::rules_repeated_copies_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kDevice = 0x900000000;
constexpr std::uint64_t kPinned = 0x40000000;

// Copies from pinned memory to the device, with these content hashes in turn; 0 = a copy without a
// hash.
Json hotspots_of(const std::vector<std::uint64_t>& contents,
                 const analyzer::Options& options = {}) {
  TraceBuilder trace;
  trace.allocate(kDevice, 64 * kMiB);
  trace.allocate(kPinned, 64 * kMiB, MemoryKind::kPinned);
  for (const std::uint64_t content : contents) {
    Copy copy;
    copy.destination = kDevice;
    copy.destination_type = EndType::kDevice;
    copy.source = kPinned;
    copy.source_type = EndType::kHost;
    copy.bytes = 2 * kMiB;
    copy.content = content;
    trace.add_call(copy, {.flags = kFlagAsynchronous});
  }
  const TemporaryFolder folder;
  const Json report = analyze_json({trace.write(folder.path())}, options);
  keep_report(report);
  return report.at("transfers").at("hotspots");
}

}  // namespace

TEST_CASE("a place that sends the same bytes in every round is found", "[unit]") {
  const Json found = hotspots_of(std::vector<std::uint64_t>(12, 7));
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("rule") == "repeated_copies");
  CHECK(found[0].at("repeated_count") == 11);
  CHECK(found[0].at("repeated_bytes") == 22 * kMiB);
  // Each call in a trace of the tests takes 5 ns.
  CHECK(found[0].at("time_lost_ns") == 11 * 5);
}

TEST_CASE("a few contents in turn are as bad as one", "[unit]") {
  std::vector<std::uint64_t> contents;
  for (std::uint64_t i = 0; i < 32; ++i) contents.push_back(1 + i % 4);
  const Json found = hotspots_of(contents);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("repeated_count") == 28);
}

TEST_CASE("a huge number of times is never reached", "[unit]") {
  std::vector<std::uint64_t> contents;
  for (std::uint64_t i = 0; i < 12; ++i) contents.push_back(1 + i % 2);
  // In 64 bits, twice the first number is 0, and the second one does not fit.
  for (const double times : {0x1p63, 1e30}) {
    analyzer::Options options;
    options.thresholds.set(static_cast<std::size_t>(analyzer::Threshold::kRepeatedTimes), times);
    INFO(times);
    CHECK(hotspots_of(contents, options).empty());
  }
}

TEST_CASE("new data, a second pass over the data, and copies without a hash are no repeats",
          "[unit]") {
  std::vector<std::uint64_t> fresh;
  for (std::uint64_t i = 0; i < 32; ++i) fresh.push_back(i + 1);
  CHECK(hotspots_of(fresh).empty());
  std::vector<std::uint64_t> passes = fresh;
  passes.insert(passes.end(), fresh.begin(), fresh.end());
  CHECK(hotspots_of(passes).empty());
  for (int i = 2; i < 10; ++i) passes.insert(passes.end(), fresh.begin(), fresh.end());
  CHECK(hotspots_of(passes).size() == 1);
  CHECK(hotspots_of(std::vector<std::uint64_t>(32, 0)).empty());
}

}  // namespace gpumemtrace::rules_repeated_copies_test
