// SPDX-License-Identifier: Apache-2.0
// Memory over time: buckets that are joined without losing a peak, and whole reports that add up.
#include <map>
#include <random>

#include "analyzer/model/accounts/accounts.hpp"
#include "tests/catch.hpp"
#include "tests/support/packed_trace.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/training_trace.hpp"

namespace gpumemtrace::timeline_test {

using namespace gpumemtrace;
using namespace gpumemtrace::tests;

namespace {

std::uint64_t number(const Json& object, const char* key) {
  return object.at(key).get<std::uint64_t>();
}

// Checks what must hold for every row of a timeline, whatever the trace.
void check_row(const Json& row) {
  INFO(row.at("process") << ' ' << row.at("device") << ' ' << row.at("level"));
  std::uint64_t before = number(row.at("buckets")[0], "start_ns");
  for (const Json& bucket : row.at("buckets")) {
    INFO(bucket.dump());
    std::uint64_t sum = 0;
    for (const auto& [name, bytes] : bucket.at("parts").items()) sum += bytes.get<std::uint64_t>();
    CHECK(sum == number(bucket, "max_bytes"));
    CHECK(number(bucket, "start_ns") == before);
    CHECK(number(bucket, "start_ns") <= number(bucket, "max_time_ns"));
    CHECK(number(bucket, "max_time_ns") <= number(bucket, "end_ns"));
    CHECK(number(bucket, "last_bytes") <= number(bucket, "max_bytes"));
    if (!bucket.at("min_bytes").is_null()) {
      CHECK(number(bucket, "min_bytes") <= number(bucket, "last_bytes"));
    }
    before = number(bucket, "end_ns");
  }
}

// The first of the buckets with the highest maximum.
Json highest_bucket(const Json& row) {
  Json highest = row.at("buckets")[0];
  for (const Json& bucket : row.at("buckets")) {
    if (number(bucket, "max_bytes") > number(highest, "max_bytes")) highest = bucket;
  }
  return highest;
}

void check_report(const Json& report, std::size_t most_buckets) {
  for (const Json& row : report.at("timeline")) {
    CHECK(row.at("buckets").size() <= most_buckets);
    check_row(row);
    const Json peak = row_where(
        report.at("peak"),
        {{"process", row.at("process")}, {"device", row.at("device")}, {"level", row.at("level")}});
    if (peak.is_null()) continue;  // imported memory has no peak
    const Json highest = highest_bucket(row);
    CHECK(highest.at("max_bytes") == peak.at("bytes"));
    CHECK(highest.at("max_time_ns") == peak.at("time_ns"));
    if (row.at("level") == "framework") CHECK(highest.at("parts") == peak.at("categories"));
  }
}

}  // namespace

namespace {

using analyzer::Accounts;
using analyzer::LiveAllocation;

// The index of a block's category is its size modulo 5.
class UsesBySize final : public analyzer::BlockUses {
 public:
  [[nodiscard]] analyzer::BlockUse use_of(const LiveAllocation& block,
                                          const analyzer::Lifetime&) const override {
    return {static_cast<std::uint8_t>(block.bytes % 5), 0};
  }
};

// Feeds the memory of one kind to Accounts, and keeps all of its events to count the memory
// independently.
class Replay {
 public:
  Replay(analyzer::Kind kind, std::size_t buckets)
      : accounts_(uses_, present_, {buckets, 0}, 1), kind_(kind) {}

  void allocate(std::uint64_t bytes, std::uint64_t now) {
    analyzer::GroupKey key;
    key.kind = kind_;
    key.device = 0;
    key.site.caller = bytes % 7;
    accounts_.advance(now);
    const LiveAllocation entry{now, bytes, now, accounts_.group_of(key),
                               static_cast<std::uint32_t>(bytes % 2)};
    accounts_.add(entry.group, bytes, now);
    lives_.push_back({entry, ~std::uint64_t{0}});
    moments_.push_back(now);
  }
  void free_one(std::uint64_t which, std::uint64_t now) {
    std::vector<Life*> live;
    for (Life& life : lives_) {
      if (life.end == ~std::uint64_t{0}) live.push_back(&life);
    }
    if (live.empty()) return;
    Life& freed = *live[which % live.size()];
    present_.time = now;
    accounts_.advance(now);
    accounts_.remove(freed.entry, Accounts::End::kFreed);
    freed.end = now;
    moments_.push_back(now);
  }
  void check(std::size_t most_buckets) {
    for (const Life& life : lives_) {
      if (life.end == ~std::uint64_t{0}) accounts_.count_life_to_end(life.entry);
    }
    accounts_.finish_timelines();
    const analyzer::Timeline& timeline = accounts_.accounts().front().timeline;
    const std::size_t count = timeline.buckets(accounts_.time_grid()).size();
    CHECK(count <= most_buckets);
    const std::uint64_t width = accounts_.time_grid().start_of(1) - moments_.front();
    if (width > 1) CHECK(2 * count >= most_buckets);
    for (std::size_t i = 0; i < count; ++i) check_bucket(timeline, i);
  }

 private:
  struct Life {
    LiveAllocation entry;
    std::uint64_t end = 0;
  };
  using Parts = std::map<std::uint32_t, std::uint64_t>;

  [[nodiscard]] std::uint32_t part_of(const LiveAllocation& entry) const {
    return kind_ == analyzer::Kind::kBlock ? static_cast<std::uint32_t>(entry.bytes % 5)
                                           : 2 * entry.group + entry.link;
  }
  // The bytes of each part after all events up to `time`.
  [[nodiscard]] Parts parts_at(std::uint64_t time) const {
    Parts parts;
    for (const auto& [entry, end] : lives_) {
      if (entry.born <= time && time < end) parts[part_of(entry)] += entry.bytes;
    }
    return parts;
  }
  static std::uint64_t sum_of(const Parts& parts) {
    std::uint64_t sum = 0;
    for (const auto& [part, bytes] : parts) sum += bytes;
    return sum;
  }

  void check_bucket(const analyzer::Timeline& timeline, std::size_t index) const {
    const analyzer::TimeGrid& grid = accounts_.time_grid();
    const std::uint64_t start = grid.start_of(index);
    const std::uint64_t end = grid.start_of(index + 1);
    const std::uint64_t at_start = sum_of(parts_at(start - 1));
    analyzer::TimeBucket expected{at_start, at_start, start - 1, at_start, 0, true};
    for (const std::uint64_t moment : moments_) {
      if (moment < start || moment >= end) continue;
      const std::uint64_t bytes = sum_of(parts_at(moment));
      expected.is_quiet = false;
      expected.last_bytes = bytes;
      expected.min_bytes = std::min(expected.min_bytes, bytes);
      if (bytes > expected.max_bytes) {
        expected.max_bytes = bytes;
        expected.max_time = moment;
      }
    }
    const analyzer::TimeBucket bucket = timeline.buckets(grid)[index];
    INFO("bucket " << index << " from " << start << " to " << end);
    CHECK(bucket.min_bytes == expected.min_bytes);
    CHECK(bucket.max_bytes == expected.max_bytes);
    CHECK(bucket.last_bytes == expected.last_bytes);
    CHECK(bucket.is_quiet == expected.is_quiet);
    if (expected.max_time >= start) CHECK(bucket.max_time == expected.max_time);
    Parts parts;
    for (const auto& [part, bytes] : timeline.parts()) {
      if (bytes[index] != 0) parts[part] = bytes[index];
    }
    CHECK(parts == parts_at(expected.max_time));
  }

  UsesBySize uses_;
  analyzer::PresentRecord present_;
  Accounts accounts_;
  analyzer::Kind kind_;
  std::vector<Life> lives_;
  std::vector<std::uint64_t> moments_;
};

}  // namespace

TEST_CASE("a bucket keeps its first maximum and its parts, however often buckets join", "[unit]") {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t buckets = 2 + random() % 40;
    const analyzer::Kind kind = seed % 2 == 0 ? analyzer::Kind::kBlock : analyzer::Kind::kDevice;
    INFO("seed " << seed << ", " << buckets << " buckets");
    Replay replay(kind, buckets);
    std::uint64_t now = 1 + random() % 1000;
    for (int i = 0; i < 150; ++i) {
      now += random() % 20 == 0 ? 1 + random() % 5000 : 1 + random() % 3;
      // Growth and decline alternate, so that maxima lie everywhere.
      const bool grows = i / 30 % 2 == 0 ? random() % 4 != 0 : random() % 4 == 0;
      if (grows || i == 0) {
        replay.allocate(1 + random() % 50, now);
      } else {
        replay.free_one(random(), now);
      }
    }
    replay.check(buckets);
  }
}

TEST_CASE("a run that spans all of time has two buckets", "[unit]") {
  Replay replay(analyzer::Kind::kBlock, 1);
  replay.allocate(3, 1);
  replay.allocate(4, ~std::uint64_t{0} - 1);
  replay.check(2);
}

TEST_CASE("a random job's timeline adds up in every bucket, and its highest is the peak",
          "[unit]") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const std::size_t points : {2, 7, 64, 1024}) {
      INFO("seed " << seed << ", " << points << " buckets");
      RandomJob job(seed);
      job.run(2000);
      job.finish();
      const TemporaryFolder folder;
      PackedTrace trace(folder.path() / "job.gmt");
      for (const JobRecord& record : job.records()) trace.add(record);
      trace.pack();
      analyzer::Options options;
      options.timeline_points = points;
      const Json report = analyze_json({trace.path()}, options);
      CHECK(report.at("timeline").size() > 3);
      check_report(report, points);
    }
  }
}

TEST_CASE("a random training's timeline has at its highest the categories of the peak", "[unit]") {
  std::map<std::string, std::uint64_t> seen;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    TrainingTrace trace;
    const std::uint32_t stacks[] = {trace.move,     trace.move_buffer, trace.load,
                                    trace.forward,  trace.loss,        trace.zero_grad,
                                    trace.optimize, trace.report_loss, 0};
    struct Block {
      std::uint64_t address = 0;
      std::uint64_t bytes = 0;
    };
    std::vector<Block> live;
    std::uint32_t stack = 0;
    for (int i = 0; i < 600; ++i) {
      // The program stays in a phase for a while.
      if (random() % 8 == 0) stack = stacks[random() % std::size(stacks)];
      const std::uint32_t writer = stack == 0 ? TrainingTrace::kEngine : TrainingTrace::kMain;
      if (live.empty() || random() % 100 < (i < 400 ? 58 : 35)) {
        const std::uint64_t bytes = kMiB << random() % 4;
        live.push_back({trace.take(bytes, stack, writer), bytes});
        // The first copy to a site's blocks may come after the site's first blocks were freed.
        if (random() % 6 == 0) trace.upload(live.back().address, bytes, stack);
      } else {
        std::swap(live[random() % live.size()], live.back());
        trace.give_back(live.back().address, live.back().bytes, stack, writer);
        live.pop_back();
      }
    }
    const Json report = report_of(trace.builder());
    check_report(report, 1024);
    const Json row = row_where(report.at("timeline"), {{"level", "framework"}});
    for (const Json& bucket : row.at("buckets")) {
      for (const auto& [name, bytes] : bucket.at("parts").items()) {
        if (bytes != 0) ++seen[name];
      }
    }
  }
  // These stacks make no block a workspace, gathered or loaded, so three categories are missing.
  CHECK(seen.size() == analyzer::kCategories - 3);
}

TEST_CASE("what is reserved stands beside what is live", "[unit]") {
  TrainingTrace trace;
  trace.take(kMiB, trace.load);
  const Json report = report_of(trace.builder());
  const Json blocks = row_where(report.at("timeline"), {{"level", "framework"}});
  const Json usage = usage_of(report, "block");
  std::uint64_t most = 0;
  for (const Json& bucket : blocks.at("buckets")) {
    most = std::max(most, number(bucket, "reserved_bytes"));
  }
  CHECK(usage.at("reserved_peak_bytes") == most);
  CHECK(blocks.at("parts_by") == "category");
  const Json driver = row_where(report.at("timeline"), {{"level", "driver"}});
  CHECK(driver.at("parts_by") == "owner");
  CHECK(driver.at("buckets")[0].at("reserved_bytes").is_null());
  CHECK(driver.at("buckets")[0].at("parts").contains("pytorch"));
}

}  // namespace gpumemtrace::timeline_test
