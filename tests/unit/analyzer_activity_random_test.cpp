// SPDX-License-Identifier: Apache-2.0
// Random calls on random threads and streams, whose CUPTI records are delivered at random times:
// every record must join the call that the test made it for.
#include <algorithm>
#include <map>
#include <random>

#include "tests/catch.hpp"
#include "tests/support/activity_builder.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer_activity_random_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kDevice = 0x7000'1000'0000;
constexpr std::uint64_t kHost = 0x5500'0000'1000;
constexpr std::uint32_t kThreads = 6;
constexpr std::uint32_t kSites = 8;  // functions that each thread calls

struct Expected {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  std::uint64_t gpu_ns = 0;
};

// A record of CUPTI that is still to be delivered.
struct Record {
  std::uint64_t known_at = 0;   // when the record is complete
  std::uint64_t delivered = 0;  // when its buffer is delivered
  bool is_copy = false;
  std::uint32_t correlation = 0;
  Interval time;
  std::uint64_t bytes = 0;
  std::uint32_t thread = 0;
  ActivityDomain domain = ActivityDomain::kDriver;
};

class RandomTrace {
 public:
  explicit RandomTrace(std::uint64_t seed) : random_(seed) {
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
      cupti_.thread(10 + thread, 500 + thread, 0x7f00'0000'0000 + thread * 0x4000);
      for (std::uint32_t site = 0; site < kSites; ++site) {
        trace_.api(api_of(thread, site), name_of(thread, site), "");
      }
    }
    cupti_.state(ActivityMode::kCopies);
    cupti_.clock(2'000'000, 200);
    trace_.allocate(kDevice, 64 * kMiB);
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) run_thread(thread);
    deliver();
  }

  static std::string name_of(std::uint32_t thread, std::uint32_t site) {
    return "cu_" + std::to_string(thread) + '_' + std::to_string(site);
  }
  Json report() {
    cupti_.clock(500'000'000, 200);
    trace_.wait_until(500'000'000);
    return report_of(trace_);
  }
  const std::map<std::string, Expected>& expected() const { return expected_; }
  std::uint64_t lost_calls() const { return lost_calls_; }
  std::uint64_t copies() const { return copies_; }

 private:
  static std::uint32_t api_of(std::uint32_t thread, std::uint32_t site) {
    return 10 + thread * kSites + site;
  }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + random_() % (high - low + 1);
  }

  void run_thread(std::uint32_t thread) {
    std::uint64_t now = 3'000'000 + between(0, 50'000);
    std::uint64_t stream_free = now;  // when the stream is done with earlier work
    for (int i = 0; i < 400; ++i) {
      now += between(300, 20'000);
      const auto site = static_cast<std::uint32_t>(between(0, kSites - 1));
      const Call call{.writer = 10 + thread,
                      .start = now,
                      .end = now + between(900, 6'000),
                      .api = static_cast<std::uint16_t>(api_of(thread, site))};
      now = call.end;
      // One in fifty calls is missing in the trace, one in ten copies nothing.
      const bool is_dropped = between(0, 49) == 0;
      const std::uint64_t bytes = between(0, 9) == 0 ? 0 : between(1, 5) * 100;
      if (!is_dropped) {
        trace_.copy(kDevice, EndType::kDevice, kHost, EndType::kHost, bytes, call);
      }
      const std::uint32_t correlation = next_correlation_++;
      add_api_record(thread, correlation, call);
      if (bytes == 0) continue;
      ++copies_;
      const std::uint64_t begin = std::max(stream_free, call.start + between(100, 800));
      const std::uint64_t pieces = between(0, 9) == 0 && bytes > 100 ? 2 : 1;
      stream_free = begin;
      for (std::uint64_t piece = 0; piece < pieces; ++piece) {
        const Interval time{stream_free, stream_free + between(50, 9'000)};
        stream_free = time.end + between(0, 200);
        add({time.end, 0, true, correlation, time, bytes / pieces, thread, {}});
        if (piece != 0) ++copies_;
        if (is_dropped) {
          ++lost_calls_;
          continue;
        }
        Expected& sum = expected_[name_of(thread, site)];
        sum.calls += piece == 0 ? 1 : 0;
        sum.bytes += bytes / pieces;
        sum.gpu_ns += time.end - time.start;
      }
    }
  }

  // CUPTI's record of a runtime call encloses the traced call, and that of a driver call lies
  // within it; the record's times are shifted by up to 80 ns.
  void add_api_record(std::uint32_t thread, std::uint32_t correlation, const Call& call) {
    const bool is_runtime = between(0, 1) == 0;
    Interval time{call.start + between(20, 200), call.end - between(20, 200)};
    if (is_runtime) time = {call.start - between(20, 140), call.end + between(20, 140)};
    const std::uint64_t off = between(0, 160);
    time = {time.start + off - 80, time.end + off - 80};
    add({time.end, 0, false, correlation, time, 0, thread,
         is_runtime ? ActivityDomain::kRuntime : ActivityDomain::kDriver});
  }

  void add(const Record& record) { records_.push_back(record); }

  // CUPTI hands buffers over up to a tenth of a second late; their records keep their order.
  void deliver() {
    for (Record& record : records_) {
      record.delivered = (record.known_at / 10'000'000 + between(1, 10)) * 10'000'000;
    }
    std::stable_sort(records_.begin(), records_.end(),
                     [](const Record& a, const Record& b) { return a.delivered < b.delivered; });
    for (const Record& record : records_) {
      const std::uint32_t id =
          record.correlation % 2 == 0 ? 500 + record.thread : record.thread * 0x4000;
      if (record.is_copy) {
        CopyRecord more;
        more.correlation = record.correlation;
        more.taken_over = record.delivered;
        cupti_.copy(record.bytes, record.time, more);
      } else {
        cupti_.call(record.domain, record.correlation, record.thread == 0 ? 500 : id, record.time,
                    record.delivered);
      }
    }
  }

  std::mt19937_64 random_;
  TraceBuilder trace_;
  ActivityBuilder cupti_{trace_};
  std::vector<Record> records_;
  std::map<std::string, Expected> expected_;
  std::uint32_t next_correlation_ = 1;
  std::uint64_t lost_calls_ = 0;
  std::uint64_t copies_ = 0;
};

}  // namespace

TEST_CASE("random calls of many threads get the records that they made", "[unit]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    RandomTrace random(seed);
    const Json report = random.report();
    std::map<std::string, Expected> seen;
    for (const Json& row : report.at("transfers").at("by_kind")) {
      if (row.at("joined_count") == 0) continue;
      Expected& sum = seen[row.at("api").get<std::string>()];
      sum.calls += row.at("joined_count").get<std::uint64_t>();
      sum.bytes += row.at("joined_bytes").get<std::uint64_t>();
      sum.gpu_ns += row.at("gpu_time_ns").get<std::uint64_t>();
    }
    REQUIRE(seen.size() == random.expected().size());
    for (const auto& [name, expected] : random.expected()) {
      INFO(name);
      CHECK(seen[name].calls == expected.calls);
      CHECK(seen[name].bytes == expected.bytes);
      CHECK(seen[name].gpu_ns == expected.gpu_ns);
    }
    const Json join = report.at("processes")[0].at("cupti").at("join");
    CHECK(join.at("unjoined") == random.lost_calls());
    CHECK(join.at("joined_exact") == random.copies() - random.lost_calls());
    CHECK(join.at("joined_inferred") == 0);
  }
}

}  // namespace gpumemtrace::analyzer_activity_random_test
