// SPDX-License-Identifier: Apache-2.0
// NCCL's allocations, by the communicator that they are for.
#include "tests/support/finding_query.hpp"
#include "tests/support/stack_records.hpp"

namespace gpumemtrace::analyzer_communicators_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kNccl = 0x7f0000000000;
constexpr std::uint32_t kDomain = 1;
constexpr std::uint32_t kInit = 2;
constexpr std::uint32_t kReduce = 3;
constexpr std::uint32_t kInitAll = 4;
constexpr std::uint32_t kSplit = 5;
constexpr std::uint32_t kGroupStart = 6;
constexpr std::uint32_t kGroupEnd = 7;
constexpr std::uint32_t kMain = 1;
constexpr std::uint32_t kSecond = 2;  // another thread that calls NCCL

// Facts about a communicator that NCCL attaches to the begin or the end of an NVTX range.
struct Told {
  std::uint64_t hash = 0;
  std::uint32_t ranks = 0;
  std::int32_t rank = -1;
  std::int32_t device = -1;
};

// A program that makes communicators on its main thread; a thread of NCCL connects each one later.
class Ranks {
 public:
  Ranks() : trace_(program_trace()) {
    trace_.module(kNccl, kNccl + 0x10000, "/lib/libnccl.so.2");
    for (std::uint32_t line = 20; line < 24; ++line) {
      add_code(trace_, line, "train", "/job/ranks.py", line);
      add_stack(trace_, line, {{line}, {}});
    }
    name(kDomain, "NCCL");
    name(kInit, "ncclCommInitRankConfig");
    name(kReduce, "ncclAllReduce");
    name(kInitAll, "ncclCommInitAll");
    name(kSplit, "ncclCommSplit");
    name(kGroupStart, "ncclGroupStart");
    name(kGroupEnd, "ncclGroupEnd");
    add_thread(trace_, kMain, 100, "python3");
    add_thread(trace_, kSecond, 101, "python3");
  }
  TraceBuilder& trace() { return trace_; }

  void make(std::uint32_t line, std::uint64_t bytes = 200 * kMiB, bool is_ended = true) {
    annotate(AnnotationOperation::kPush, kInit);
    take(bytes, line, kMain);
    if (is_ended) annotate(AnnotationOperation::kPop, 0);
  }
  void make(std::uint32_t line, const Told& told) {
    begin(kInit);
    take(200 * kMiB, line, kMain);
    end(told);
  }
  // Connects a communicator on a thread of NCCL that has this system id.
  void connect(std::uint64_t thread_id, std::uint64_t bytes = 300 * kMiB) {
    begin(kReduce);
    serve(thread_id, bytes);
    end();
  }
  void serve(std::uint64_t thread_id, std::uint64_t bytes, std::uint32_t device = 0) {
    const auto writer = static_cast<std::uint32_t>(thread_id);
    add_thread(trace_, writer, thread_id, "python3");
    take(bytes, 0, writer, kNccl + 0x10, device);
  }
  void begin(std::uint32_t range, const Told& told = {}, std::uint32_t writer = kMain) {
    annotate(AnnotationOperation::kPush, range, told, writer);
  }
  void end(const Told& told = {}, std::uint32_t writer = kMain) {
    annotate(AnnotationOperation::kPop, 0, told, writer);
  }
  void call(std::uint32_t range, const Told& told = {}) {
    begin(range, told);
    end();
  }
  std::uint64_t take(std::uint64_t bytes, std::uint32_t stack, std::uint32_t writer,
                     std::uint64_t caller = kNccl + 0x10, std::uint32_t device = 0) {
    const std::uint64_t address = next_;
    next_ += bytes + kMiB;
    allocate_at(trace_, address, bytes, stack,
                {.writer = writer, .caller = caller, .context = device + 1});
    return address;
  }
  void free(std::uint64_t address) { trace_.free(address); }
  Json rows() { return report_of(trace_).at("communicators"); }
  Json findings() { return findings_of(trace_, "many_communicators"); }

 private:
  void name(std::uint32_t id, std::string_view text) {
    Name record;
    record.id = id;
    trace_.add(record, kMain, text);
  }
  void annotate(AnnotationOperation operation, std::uint32_t range, const Told& told = {},
                std::uint32_t writer = kMain) {
    Annotation record;
    record.operation = operation;
    record.source = AnnotationSource::kNvtx;
    record.name = range;
    record.domain = kDomain;
    record.communicator = told.hash;
    record.ranks = told.ranks;
    record.rank = told.rank;
    record.cuda_device = told.device;
    trace_.add(record, writer);
  }

  TraceBuilder trace_;
  std::uint64_t next_ = 0x200000000;
};

}  // namespace

TEST_CASE("a communicator has what its making and its thread allocated", "[unit]") {
  Ranks ranks;
  ranks.make(20, 200 * kMiB, false);  // NCCL's first range has no end
  ranks.make(21);
  ranks.take(64 * kMiB, 22, kMain, kProgram + 0x20);  // the program's own memory
  ranks.connect(57);
  ranks.connect(52, 100 * kMiB);  // the first communicator's thread, which connects last
  const Json rows = ranks.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("id") == "p1:nccl1");
  CHECK(rows[0].at("bytes") == 300 * kMiB);
  CHECK(rows[0].at("made_at").at("line") == 20);
  CHECK(rows[1].at("bytes") == 500 * kMiB);
  CHECK(rows[1].at("allocations") == 2);
  CHECK(rows[1].at("made_at").at("line") == 21);
  CHECK(rows[1].at("bytes_at_peak") == 500 * kMiB);
}

TEST_CASE("where threads cannot belong to communicators they are a row without id", "[unit]") {
  Ranks ranks;
  ranks.make(20);
  ranks.make(21);
  ranks.connect(57);
  const Json rows = ranks.rows();
  REQUIRE(rows.size() == 3);
  CHECK(rows[1].at("bytes") == 200 * kMiB);
  CHECK(rows[2].at("id").is_null());
  CHECK(rows[2].at("bytes") == 300 * kMiB);
}

TEST_CASE("a communicator has the ranks that NCCL tells of it", "[unit]") {
  Ranks ranks;
  ranks.make(20, {.hash = 7, .ranks = 8, .rank = 3, .device = 0});
  // NCCL 2.24 tells these facts with the begin of the range.
  ranks.begin(kInit, {.hash = 0, .ranks = 4, .rank = 1, .device = 0});
  ranks.take(200 * kMiB, 21, kMain);
  ranks.end();
  ranks.begin(kSplit);
  ranks.take(200 * kMiB, 22, kMain);
  ranks.end({.hash = 0, .ranks = 8, .rank = 3, .device = 0});  // the parent communicator's facts
  ranks.make(23);
  const Json rows = ranks.rows();
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].at("ranks") == 8);
  CHECK(rows[0].at("rank") == 3);
  CHECK(rows[0].at("nccl_hash") == "0000000000000007");
  CHECK(rows[1].at("nccl_hash").is_null());
  CHECK(rows[1].at("ranks") == 4);
  CHECK(rows[1].at("rank") == 1);
  for (const std::size_t untold : {2, 3}) {
    CHECK(rows[untold].at("ranks").is_null());
    CHECK(rows[untold].at("rank").is_null());
  }
}

TEST_CASE("a thread's memory is for the communicator that a call uses meanwhile", "[unit]") {
  Ranks ranks;
  ranks.make(20, {.hash = 7, .ranks = 2, .rank = 0, .device = 0});
  ranks.make(21, {.hash = 8, .ranks = 2, .rank = 0, .device = 0});
  ranks.make(22, {.hash = 9, .ranks = 2, .rank = 0, .device = 0});  // never connected to its peers
  ranks.begin(kReduce, {.hash = 8});
  ranks.serve(52, 30 * kMiB);
  ranks.take(kMiB, 23, kMain);  // NCCL allocates on the thread of its caller
  ranks.end();
  ranks.call(kGroupStart);
  ranks.call(kReduce, {.hash = 7});
  ranks.call(kReduce, {.hash = 7});
  ranks.begin(kGroupEnd);  // ncclGroupEnd carries out the group's calls
  ranks.serve(57, 40 * kMiB);
  ranks.end();
  const Json rows = ranks.rows();
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].at("bytes") == 240 * kMiB);
  CHECK(rows[1].at("bytes") == 231 * kMiB);
  CHECK(rows[2].at("bytes") == 200 * kMiB);
}

TEST_CASE("calls of several communicators at once tell nothing of a thread", "[unit]") {
  Ranks ranks;
  ranks.make(20, {.hash = 7, .ranks = 2, .rank = 0, .device = 0});
  ranks.make(21, {.hash = 8, .ranks = 2, .rank = 0, .device = 0});
  ranks.begin(kReduce, {.hash = 7});
  ranks.begin(kReduce, {.hash = 8}, kSecond);
  ranks.serve(52, 30 * kMiB);
  ranks.end({}, kSecond);
  ranks.end();
  ranks.call(kGroupStart);
  ranks.call(kReduce, {.hash = 7});
  ranks.call(kReduce, {.hash = 8});
  ranks.begin(kGroupEnd);
  ranks.serve(57, 40 * kMiB);
  ranks.serve(58, 50 * kMiB);
  ranks.end();
  const Json rows = ranks.rows();
  REQUIRE(rows.size() == 3);
  CHECK(rows[2].at("id").is_null());
  CHECK(rows[2].at("ranks").is_null());
  CHECK(rows[2].at("bytes") == 120 * kMiB);
}

TEST_CASE("the only communicator of a device has all that NCCL allocates there", "[unit]") {
  Ranks group;  // one process with a rank on each of two devices; threads of NCCL make them
  group.trace().context(2, 1);
  group.call(kGroupStart);
  for (const std::int32_t device : {0, 1}) {
    group.begin(kInit);
    group.end({.ranks = 2, .rank = device, .device = device});
  }
  group.begin(kGroupEnd);
  group.serve(50, 30 * kMiB, 1);
  group.serve(51, 40 * kMiB, 0);
  group.serve(52, 50 * kMiB, 0);
  group.end();
  Json rows = group.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("id") == "p1:nccl1");
  CHECK(rows[0].at("bytes") == 90 * kMiB);
  CHECK(rows[0].at("rank") == 0);
  CHECK(rows[1].at("id") == "p1:nccl2");
  CHECK(rows[1].at("bytes") == 30 * kMiB);
  CHECK(rows[1].at("rank") == 1);

  Ranks all;
  all.trace().context(2, 1);
  all.begin(kInitAll);
  all.serve(50, 30 * kMiB, 0);
  all.serve(51, 40 * kMiB, 1);
  all.end({.hash = 7, .ranks = 2});
  rows = all.rows();
  REQUIRE(rows.size() == 2);
  for (const Json& row : rows) {
    CHECK(row.at("id") == "p1:nccl1");
    CHECK(row.at("ranks") == 2);
    CHECK(row.at("rank").is_null());
  }
  CHECK(rows[1].at("bytes") == 40 * kMiB);
}

TEST_CASE("threads of a communicator from before the recording belong to no other", "[unit]") {
  Ranks ranks;
  ranks.make(20, {.hash = 7, .ranks = 2, .rank = 0, .device = 0});
  ranks.begin(kReduce, {.hash = 99});
  ranks.serve(52, 30 * kMiB);
  ranks.end();
  const Json rows = ranks.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("bytes") == 200 * kMiB);
  CHECK(rows[1].at("id").is_null());
  CHECK(rows[1].at("bytes") == 30 * kMiB);
}

TEST_CASE("a child of a communicator from before the recording does not get its parent's threads",
          "[unit]") {
  Ranks ranks;
  ranks.begin(kSplit);
  ranks.take(200 * kMiB, 20, kMain);
  ranks.end();
  ranks.begin(kReduce, {.hash = 99});  // the parent
  ranks.serve(52, 30 * kMiB);
  ranks.end();
  const Json rows = ranks.rows();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("bytes") == 200 * kMiB);
  CHECK(rows[1].at("id").is_null());
  CHECK(rows[1].at("bytes") == 30 * kMiB);
}

TEST_CASE("communicators that one line makes again and again are told", "[unit]") {
  Ranks ranks;
  ranks.make(20);
  for (int i = 0; i < 6; ++i) ranks.make(21);
  for (std::uint64_t i = 0; i < 7; ++i) ranks.connect(50 + i);
  const Json found = ranks.findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "warning");
  CHECK(found[0].at("owner") == "nccl");
  CHECK(found[0].at("site").at("line") == 21);
  CHECK(found[0].at("bytes") == 3000 * kMiB);
  CHECK(found[0].at("saves").at("bytes") == 2500 * kMiB);
  CHECK(has(found[0], "destroy_process_group"));
}

TEST_CASE("a few communicators, and those that are destroyed in time, are no fault", "[unit]") {
  Ranks few;
  for (std::uint32_t line = 20; line < 23; ++line) few.make(line);
  for (std::uint64_t i = 0; i < 3; ++i) few.connect(50 + i);
  CHECK(few.findings().empty());

  Ranks destroyed;
  for (int i = 0; i < 8; ++i) {
    destroyed.make(21, kMiB);
    destroyed.free(destroyed.take(500 * kMiB, 21, kMain));
  }
  CHECK(destroyed.findings().empty());
  CHECK(Ranks().rows().empty());
}

// NCCL allocates many buffers, one by one, for a single call of the program.
TEST_CASE("buffers of communicators that come and go are no churn of the program's", "[unit]") {
  Ranks ranks;
  for (int step = 0; step < 10; ++step) {
    ranks.begin(kInit);
    std::vector<std::uint64_t> buffers;
    for (int i = 0; i < 100; ++i) buffers.push_back(ranks.take(kMiB, 20, kMain));
    ranks.end();
    for (const std::uint64_t buffer : buffers) ranks.free(buffer);
  }
  CHECK(findings_of(ranks.trace(), "allocation_churn").empty());
}

TEST_CASE("a finding is not put into a range of NCCL's", "[unit]") {
  Ranks ranks;
  ranks.make(20, 200 * kMiB, false);
  ranks.take(64 * kMiB, 22, kMain, kProgram + 0x20);
  const Json leaks = findings_of(ranks.trace(), "leak");
  REQUIRE_FALSE(leaks.empty());
  for (const Json& leak : leaks) CHECK_FALSE(leak.at("evidence").contains("range"));
}

}  // namespace gpumemtrace::analyzer_communicators_test
