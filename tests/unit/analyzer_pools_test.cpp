// SPDX-License-Identifier: Apache-2.0
// Private pools of CUDA graphs: the analyzer tells them apart by captures, leaves them out of
// fragmentation, and reports many pools of which one would be enough.
#include <set>

#include "tests/support/finding_query.hpp"
#include "tests/support/stack_records.hpp"

namespace gpumemtrace::analyzer_pools_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kSegments = 0x900000000;
constexpr std::uint32_t kCaptureStack = 1;

// A program that captures CUDA graphs. Each capture frees all of its memory but 1 MiB.
class Captures {
 public:
  Captures() : trace_(program_trace()) {
    add_code(trace_, 1, "Service.capture", "/job/serve.py", 49);
    add_stack(trace_, kCaptureStack, {{1}, {}});
    trace_.device(0, 0x1234, 80 * 1024 * kMiB);
  }
  TraceBuilder& trace() { return trace_; }

  // Allocates a segment and returns its address.
  std::uint64_t segment(std::uint64_t bytes) {
    const std::uint64_t address = next_;
    next_ += bytes + 64 * kMiB;
    trace_.allocate(address, bytes);
    reserved_ += bytes;
    return address;
  }
  void take(std::uint64_t address, std::uint64_t bytes) {
    trace_.block(address, static_cast<std::int64_t>(bytes), reserved_);
  }
  void give_back(std::uint64_t address, std::uint64_t bytes) {
    trace_.block(address, -static_cast<std::int64_t>(bytes), reserved_);
  }
  void begin() {
    Graph record;
    record.operation = GraphOperation::kBeginCapture;
    record.stream = 7;
    record.call.stack = StackId{kCaptureStack};
    trace_.add_call(record, {});
  }
  void end(std::uint16_t result = 0) {
    Graph record;
    record.operation = GraphOperation::kEndCapture;
    record.stream = 7;
    record.graph = ++graphs_;
    trace_.add_call(record, {.result = result});
    if (result == 0) trace_.graph(GraphOperation::kInstantiate, graphs_, 1000 + graphs_);
  }
  // Captures a graph that needs `bytes` and keeps 1 MiB of them. Returns the segment that it uses:
  // `in_segment`, or a new one if that is 0.
  std::uint64_t capture(std::uint64_t bytes, std::uint64_t in_segment = 0) {
    begin();
    const std::uint64_t own = in_segment == 0 ? segment(bytes) : in_segment;
    take(own + bytes - kMiB, kMiB);
    take(own, bytes - kMiB);
    give_back(own, bytes - kMiB);
    end();
    return own;
  }
  std::uint64_t reserved() const { return reserved_; }

 private:
  TraceBuilder trace_;
  std::uint64_t next_ = kSegments;
  std::uint64_t reserved_ = 0;
  std::uint64_t graphs_ = 0;
};

Json pools_of(Captures& captures, const char* kind) {
  Json found = Json::array();
  const Json report = report_of(captures.trace());
  for (const Json& row : report.at("pools")) {
    if (row.at("kind") == kind) found.push_back(row);
  }
  return found;
}

Json findings_in(Captures& captures) { return findings_of(captures.trace(), "many_private_pools"); }

}  // namespace

TEST_CASE("each capture without a shared pool has one of its own", "[unit]") {
  Captures captures;
  captures.take(captures.segment(40 * kMiB), 30 * kMiB);
  captures.capture(100 * kMiB);
  captures.capture(200 * kMiB);
  const Json report = report_of(captures.trace());
  const Json graphs = pools_of(captures, "graph");
  REQUIRE(graphs.size() == 2);
  CHECK(graphs[0].at("reserved_peak_bytes") == 200 * kMiB);
  CHECK(graphs[0].at("allocated_peak_bytes") == 200 * kMiB);
  CHECK(graphs[0].at("allocated_bytes_after_capture") == kMiB);
  CHECK(graphs[0].at("graphs") == 1);
  CHECK(graphs[0].at("live_graphs_at_end") == 1);
  CHECK(graphs[0].at("basis") == "inferred");
  CHECK(graphs[0].at("made_at").at("line") == 49);
  std::uint64_t reserved = 0;
  std::uint64_t allocated = 0;
  for (const Json& row : report.at("pools")) {
    reserved += row.at("reserved_bytes_at_peak").get<std::uint64_t>();
    allocated += row.at("allocated_bytes_at_peak").get<std::uint64_t>();
  }
  CHECK(reserved == captures.reserved());
  CHECK(allocated == 30 * kMiB + kMiB + kMiB);  // peak: the last segment got its first block
  const Json normal = pools_of(captures, "default");
  REQUIRE(normal.size() == 1);
  CHECK(normal[0].at("reserved_peak_bytes") == 40 * kMiB);
  CHECK(normal[0].at("allocated_peak_bytes") == 30 * kMiB);
}

TEST_CASE("captures that use one segment share a pool", "[unit]") {
  Captures captures;
  const std::uint64_t largest = captures.capture(300 * kMiB);
  captures.capture(100 * kMiB, largest);
  captures.begin();
  captures.take(largest, kMiB);
  const std::uint64_t more = captures.segment(20 * kMiB);
  captures.take(more, kMiB);
  captures.end();
  const Json graphs = pools_of(captures, "graph");
  REQUIRE(graphs.size() == 1);
  CHECK(graphs[0].at("graphs") == 3);
  CHECK(graphs[0].at("reserved_peak_bytes") == 320 * kMiB);
  CHECK(graphs[0].at("live_graphs_at_end") == 3);
}

TEST_CASE("a graph is live no more once another one has its handle", "[unit]") {
  Captures captures;
  captures.capture(100 * kMiB);
  captures.capture(200 * kMiB);
  captures.trace().graph(GraphOperation::kInstantiate, 2, 1001);  // the first graph's handle
  const Json graphs = pools_of(captures, "graph");
  REQUIRE(graphs.size() == 2);
  CHECK(graphs[0].at("reserved_peak_bytes") == 200 * kMiB);
  CHECK(graphs[0].at("live_graphs_at_end") == 2);
  CHECK(graphs[1].at("live_graphs_at_end") == 0);
}

TEST_CASE("a capture that gets a segment before it uses those of a pool is of that pool",
          "[unit]") {
  Captures captures;
  const std::uint64_t first = captures.capture(100 * kMiB);
  captures.begin();
  captures.take(captures.segment(50 * kMiB), 50 * kMiB);
  captures.take(first, kMiB);
  captures.end();
  const Json graphs = pools_of(captures, "graph");
  REQUIRE(graphs.size() == 1);
  CHECK(graphs[0].at("reserved_peak_bytes") == 150 * kMiB);
  CHECK(graphs[0].at("reserved_bytes_at_peak") == 150 * kMiB);
}

TEST_CASE("a warm-up in a graph's pool is part of it", "[unit]") {
  Captures captures;
  const std::uint64_t warm = captures.segment(60 * kMiB);
  captures.take(warm, 50 * kMiB);
  captures.give_back(warm, 50 * kMiB);
  captures.begin();
  captures.take(warm, 50 * kMiB);
  captures.end();
  CHECK(pools_of(captures, "graph")[0].at("reserved_peak_bytes") == 60 * kMiB);
}

TEST_CASE("a capture that failed is over", "[unit]") {
  Captures captures;
  captures.begin();
  captures.end(901);  // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
  captures.take(captures.segment(60 * kMiB), 50 * kMiB);
  CHECK(pools_of(captures, "graph").empty());
  CHECK(pools_of(captures, "default")[0].at("reserved_peak_bytes") == 60 * kMiB);
}

TEST_CASE("what lies free in private pools is no fragmentation", "[unit]") {
  Captures captures;
  strand_memory(captures.trace());
  const Json without = findings_of(captures.trace(), "fragmentation");
  REQUIRE(without.size() == 1);

  Captures with_graphs;
  for (int i = 0; i < 8; ++i) with_graphs.capture(100 * kMiB);
  CHECK(findings_of(with_graphs.trace(), "fragmentation").empty());
  const Json report = report_of(with_graphs.trace());
  for (const Json& row : report.at("fragmentation")) CHECK(row.at("stranded_bytes") == 0);

  // The stranded memory is negligible beside what graphs reserve.
  strand_memory(with_graphs.trace());
  CHECK(findings_of(with_graphs.trace(), "fragmentation").empty());
}

TEST_CASE("many private pools that use little are told, with what one pool needs", "[unit]") {
  Captures captures;
  for (std::uint64_t i = 1; i <= 8; ++i) captures.capture(i * 50 * kMiB);
  const Json found = findings_in(captures);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "warning");
  CHECK(found[0].at("site").at("line") == 49);
  CHECK(found[0].at("bytes") == 1800 * kMiB);
  CHECK(found[0].at("saves").at("bytes") == 1400 * kMiB);
  CHECK(found[0].at("saves").at("basis") == "arithmetic");
  CHECK(found[0].at("evidence").at("pools") == 8);
  CHECK(found[0].at("evidence").at("used_bytes") == 8 * kMiB);
  CHECK(found[0].at("evidence").at("largest_bytes") == 400 * kMiB);
  CHECK(has(found[0], "graph_pool_handle()"));
  CHECK_FALSE(has(found[0], "expandable_segments"));
}

TEST_CASE("one pool for all, small pools and pools in use are no fault", "[unit]") {
  Captures shared;
  const std::uint64_t largest = shared.capture(400 * kMiB);
  for (std::uint64_t i = 7; i >= 1; --i) {
    shared.begin();
    shared.take(largest, i * 40 * kMiB);
    shared.give_back(largest, i * 40 * kMiB);
    shared.end();
  }
  CHECK(findings_in(shared).empty());

  Captures small;
  for (int i = 0; i < 8; ++i) small.capture(4 * kMiB);
  CHECK(findings_in(small).empty());

  Captures used;
  for (int i = 0; i < 8; ++i) {
    used.begin();
    used.take(used.segment(200 * kMiB), 150 * kMiB);
    used.end();
  }
  CHECK(findings_in(used).empty());
}

}  // namespace gpumemtrace::analyzer_pools_test
