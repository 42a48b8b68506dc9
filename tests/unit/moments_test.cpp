// SPDX-License-Identifier: Apache-2.0
// Single blocks at a moment, and a part of the run in finer buckets: both add up to the timeline of
// the whole run.
#include <map>

#include "analyzer/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/support/packed_trace.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/training_trace.hpp"

namespace gpumemtrace::moments_test {

using namespace gpumemtrace;
using namespace gpumemtrace::tests;

namespace {

using Sums = std::map<std::string, std::uint64_t>;

std::uint64_t number(const Json& object, const char* key) {
  return object.at(key).get<std::uint64_t>();
}

void write_job(std::uint64_t seed, const std::filesystem::path& path) {
  RandomJob job(seed);
  job.run(1500);
  job.finish();
  PackedTrace trace(path);
  for (const JobRecord& record : job.records()) trace.add(record);
  trace.pack();
}

std::string place_of(const Json& row) {
  return row.at("process").dump() + row.at("device").dump() + row.at("level").dump();
}

// Sums of the blocks' bytes for each process, device and memory level.
Sums bytes_by_place(const Json& blocks) {
  Sums sums;
  for (const Json& row : blocks) sums[place_of(row)] += number(row, "bytes");
  return sums;
}

// Sums of the bytes of the framework's blocks for each category.
Sums bytes_by_category(const Json& blocks) {
  Sums sums;
  for (const Json& row : blocks) {
    if (row.at("level") != "framework") continue;
    const Json& category = row.at("category");
    sums[category.is_null() ? "unknown" : category.get<std::string>()] += number(row, "bytes");
  }
  return sums;
}

Sums parts_of(const Json& bucket) {
  Sums parts;
  for (const auto& [name, bytes] : bucket.at("parts").items()) {
    if (bytes != 0) parts[name] = bytes.get<std::uint64_t>();
  }
  return parts;
}

struct Extremes {
  std::uint64_t min_bytes = ~std::uint64_t{0};
  std::uint64_t max_bytes = 0;
  std::uint64_t last_bytes = 0;
  Sums parts;  // the parts of the first bucket with max_bytes

  void add(const Json& bucket) {
    min_bytes = std::min(min_bytes, number(bucket, "min_bytes"));
    last_bytes = number(bucket, "last_bytes");
    if (number(bucket, "max_bytes") <= max_bytes) return;
    max_bytes = number(bucket, "max_bytes");
    parts = parts_of(bucket);
  }
  friend bool operator==(const Extremes&, const Extremes&) = default;
};

// A training of `steps` steps; with many, its trace is long enough to look into a part of it.
void train(TrainingTrace& trace, int steps) {
  const std::uint64_t weight = trace.take(kMiB, trace.move);
  trace.upload(weight, kMiB, trace.move);
  for (int i = 0; i < steps; ++i) {
    const std::uint64_t seen = trace.take(2 * kMiB, trace.forward);
    const std::uint64_t loss = trace.take(512, trace.loss);
    trace.give_back(loss, 512, 0);
    trace.give_back(seen, 2 * kMiB, 0);
  }
}

}  // namespace

TEST_CASE("the blocks of a moment sum to what the timeline has there", "[unit]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "job.gmt";
  write_job(1, path);
  const Json whole = analyze_json({path});
  CHECK_FALSE(whole.contains("blocks"));
  // Reports are kept by moment, because the buckets of many rows end at the same moments.
  std::map<std::uint64_t, Json> blocks_at;
  const auto blocks_of = [&](std::uint64_t moment_ns) -> const Json& {
    Json& blocks = blocks_at[moment_ns];
    if (!blocks.is_null()) return blocks;
    analyzer::Options options;
    options.blocks_at_ns = moment_ns;
    const Json report = analyze_json({path}, options);
    keep_report(report);
    return blocks = report.at("blocks");
  };
  for (const Json& row : whole.at("timeline")) {
    const Json& buckets = row.at("buckets");
    for (std::size_t i = 0; i < buckets.size(); i += 1 + buckets.size() / 2) {
      INFO(place_of(row) << ' ' << buckets[i].dump());
      const std::uint64_t moment_ns = number(buckets[i], "end_ns") - 1;
      CHECK(bytes_by_place(blocks_of(moment_ns))[place_of(row)] ==
            number(buckets[i], "last_bytes"));
      for (const Json& block : blocks_of(moment_ns)) {
        CHECK(number(block, "start_ns") <= moment_ns);
        if (!block.at("end_ns").is_null()) CHECK(number(block, "end_ns") > moment_ns);
      }
    }
  }
}

TEST_CASE("the blocks of the peaks sum to the peaks, by category, too", "[unit]") {
  TrainingTrace training;
  train(training, 5);
  const TemporaryFolder folder;
  const auto path = training.builder().write(folder.path(), Ending::kExit);
  analyzer::Options options;
  options.blocks_at_peak = true;
  const Json report = analyze_json({path}, options);
  keep_report(report);
  Sums sums = bytes_by_place(report.at("blocks"));
  for (const Json& peak : report.at("peak")) CHECK(sums[place_of(peak)] == number(peak, "bytes"));
  const Json framework = row_where(report.at("peak"), {{"level", "framework"}});
  Sums told;
  for (const auto& [name, bytes] : framework.at("categories").items()) {
    if (bytes != 0) told[name] = bytes.get<std::uint64_t>();
  }
  CHECK(bytes_by_category(report.at("blocks")) == told);
  const Json& first = report.at("blocks")[0];
  CHECK(first.at("at") == "peak");
  CHECK(first.at("address").is_number_unsigned());
}

TEST_CASE("a moment after the end has what was live then", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, kMiB);
  trace.allocate(0x20000000, 2 * kMiB);
  trace.free(0x10000000);
  const TemporaryFolder folder;
  analyzer::Options options;
  const auto path = trace.write(folder.path(), Ending::kExit);
  for (const std::uint64_t at :
       {std::uint64_t{3'600'000'000'000}, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    options.blocks_at_ns = at;
    const Json report = analyze_json({path}, options);
    REQUIRE(report.at("blocks").size() == 1);
    CHECK(report.at("blocks")[0].at("bytes") == 2 * kMiB);
    CHECK(report.at("blocks")[0].at("address") == 0x20000000);
    CHECK(report.at("blocks")[0].at("end_ns").is_null());
  }
}

TEST_CASE("a part of the run has the extremes that the whole run has there, in finer buckets",
          "[unit]") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const TemporaryFolder folder;
    const auto path = folder.path() / "job.gmt";
    if (seed <= 2) {
      write_job(seed, path);
    } else {
      TrainingTrace training;
      train(training, static_cast<int>(seed) * 70);
      std::filesystem::rename(training.builder().write(folder.path(), Ending::kExit), path);
    }
    analyzer::Options coarse;
    coarse.timeline_points = 64;
    const Json whole = analyze_json({path}, coarse);
    for (const Json& row : whole.at("timeline")) {
      const Json& buckets = row.at("buckets");
      if (buckets.size() < 8) continue;
      const std::size_t first = buckets.size() / 4;
      const std::size_t last = buckets.size() / 2;
      analyzer::Options options = coarse;
      options.window = {number(buckets[first], "start_ns"), number(buckets[last], "end_ns") - 1};
      INFO("seed " << seed << ' ' << place_of(row) << ' ' << options.window->from_ns << " to "
                   << *options.window->to_ns);
      const Json report = analyze_json({path}, options);
      keep_report(report);
      CHECK(report.at("window").at("from_ns") == options.window->from_ns);
      CHECK(report.at("peak").dump() == whole.at("peak").dump());
      Extremes expected;
      for (std::size_t i = first; i <= last; ++i) expected.add(buckets[i]);
      Extremes found;
      const Json part = row_where(report.at("timeline"),
                                  {{"device", row.at("device")}, {"level", row.at("level")}});
      std::uint64_t end = options.window->from_ns;
      for (const Json& bucket : part.at("buckets")) {
        found.add(bucket);
        CHECK(number(bucket, "start_ns") >= end);
        end = number(bucket, "end_ns");
      }
      CHECK(end <= *options.window->to_ns + 1);
      CHECK(found == expected);
      ++compared;
      for (const Json& block : report.at("largest_blocks")) {
        CHECK(number(block, "start_ns") <= *options.window->to_ns);
        if (!block.at("end_ns").is_null()) {
          CHECK(number(block, "end_ns") >= options.window->from_ns);
        }
      }
    }
  }
  CHECK(compared > 6);
}

TEST_CASE("a part of the run in which nothing was recorded has no timeline", "[unit]") {
  TraceBuilder trace;
  trace.allocate(0x10000000, kMiB);
  const TemporaryFolder folder;
  analyzer::Options options;
  options.window = {3'600'000'000'000, std::nullopt};
  const Json report = analyze_json({trace.write(folder.path(), Ending::kExit)}, options);
  CHECK(report.at("timeline").empty());
  CHECK(report.at("largest_blocks").empty());
  CHECK(report.at("window").at("to_ns").is_null());

  options.window = {0, 1};  // ends before the first allocation
  CHECK(analyze_json({trace.write(folder.path(), Ending::kExit)}, options).at("timeline").empty());
}

}  // namespace gpumemtrace::moments_test
