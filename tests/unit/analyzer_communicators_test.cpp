// SPDX-License-Identifier: Apache-2.0
// NCCL's allocations, by the communicator that they are for.
#include "tests/support/finding_query.hpp"
#include "tests/support/stack_records.hpp"

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kNccl = 0x7f0000000000;
constexpr std::uint32_t kDomain = 1;
constexpr std::uint32_t kInit = 2;
constexpr std::uint32_t kReduce = 3;
constexpr std::uint32_t kMain = 1;

// Ranks make communicators on the main thread; each has a thread that connects it later.
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
    add_thread(trace_, kMain, 100, "python3");
  }
  TraceBuilder& trace() { return trace_; }

  void make(std::uint32_t line, std::uint64_t bytes = 200 * kMiB, bool is_ended = true) {
    annotate(AnnotationOperation::kPush, kInit);
    take(bytes, line, kMain);
    if (is_ended) annotate(AnnotationOperation::kPop, 0);
  }
  // A thread of NCCL's that the system numbered so.
  void connect(std::uint64_t thread_id, std::uint64_t bytes = 300 * kMiB) {
    annotate(AnnotationOperation::kPush, kReduce);
    const auto writer = static_cast<std::uint32_t>(thread_id);
    add_thread(trace_, writer, thread_id, "python3");
    take(bytes, 0, writer);
    annotate(AnnotationOperation::kPop, 0);
  }
  std::uint64_t take(std::uint64_t bytes, std::uint32_t stack, std::uint32_t writer,
                     std::uint64_t caller = kNccl + 0x10) {
    const std::uint64_t address = next_;
    next_ += bytes + kMiB;
    allocate_at(trace_, address, bytes, stack, {.writer = writer, .caller = caller});
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
  void annotate(AnnotationOperation operation, std::uint32_t range) {
    Annotation record;
    record.operation = operation;
    record.source = AnnotationSource::kNvtx;
    record.name = range;
    record.domain = kDomain;
    trace_.add(record, kMain);
  }

  TraceBuilder trace_;
  std::uint64_t next_ = 0x200000000;
};

}  // namespace

TEST_CASE("a communicator has what its making and its thread allocated", "[unit]") {
  Ranks ranks;
  ranks.make(20, 200 * kMiB, false);  // NCCL's first range has no end
  ranks.make(21);
  ranks.take(64 * kMiB, 22, kMain, kProgram + 0x20);  // the program's own
  ranks.connect(57);
  ranks.connect(52, 100 * kMiB);  // that of the first, which is used last
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

TEST_CASE("a finding is not put into a range of NCCL's", "[unit]") {
  Ranks ranks;
  ranks.make(20, 200 * kMiB, false);
  ranks.take(64 * kMiB, 22, kMain, kProgram + 0x20);
  const Json leaks = findings_of(ranks.trace(), "leak");
  REQUIRE_FALSE(leaks.empty());
  for (const Json& leak : leaks) CHECK_FALSE(leak.at("evidence").contains("range"));
}
