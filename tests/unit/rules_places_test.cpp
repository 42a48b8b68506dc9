// SPDX-License-Identifier: Apache-2.0
// A finding names every line that its reader may have to edit, and how much is at stake there.
#include "analyzer/rules/finding_text.hpp"
#include "tests/catch.hpp"
#include "tests/support/finding_query.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/stack_records.hpp"

namespace gpumemtrace::rules_places_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kAddress = 0x900000000;
constexpr std::uint64_t kHostAddress = 0x40000000;

}  // namespace

TEST_CASE("a second free names the first one and the allocation", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(kAddress, kMiB, MemoryKind::kDevice, call_at(0x10));
  trace.free(kAddress, MemoryKind::kDevice, call_at(0x20));
  trace.free(kAddress, MemoryKind::kDevice, call_at(0x30, 1));
  const Json found = finding_of(trace, "invalid_free");
  CHECK(offset_of(found.at("evidence").at("allocated_at")) == 0x10);
  CHECK(offset_of(found.at("evidence").at("freed_before_at")) == 0x20);
  CHECK(has(found, "had been freed before"));
}

TEST_CASE("an address that was handed out anew was not freed before", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(kAddress, kMiB, MemoryKind::kDevice, call_at(0x10));
  trace.free(kAddress, MemoryKind::kDevice, call_at(0x20));
  trace.allocate(kAddress, kMiB, MemoryKind::kDevice, call_at(0x40));
  trace.free(kAddress, MemoryKind::kPinned, call_at(0x30, 1));
  trace.free(kAddress, MemoryKind::kDevice, call_at(0x20));
  const Json found = finding_of(trace, "invalid_free");
  CHECK(found.at("evidence").at("what") == "live_memory");
  CHECK(offset_of(found.at("evidence").at("allocated_at")) == 0x40);
}

TEST_CASE("a free within an allocation tells how far from its begin", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(kAddress, kMiB, MemoryKind::kDevice, call_at(0x10));
  trace.free(kAddress + 4096, MemoryKind::kDevice, call_at(0x30, 1));
  trace.free(kAddress, MemoryKind::kDevice, call_at(0x20));
  const Json found = finding_of(trace, "invalid_free");
  CHECK(found.at("evidence").at("what") == "inside_live_memory");
  CHECK(has(found, "4.0 KiB before this one"));
  CHECK(offset_of(found.at("evidence").at("allocated_at")) == 0x10);
}

TEST_CASE("a free of memory that its context took names the end of the context", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(kAddress, kMiB, MemoryKind::kDevice, call_at(0x10));
  trace.context_call(ContextOperation::kResetPrimary, 1, 0, call_at(0x50));
  trace.free(kAddress, MemoryKind::kDevice, call_at(0x30, 1));
  const Json found = finding_of(trace, "invalid_free");
  CHECK(found.at("evidence").at("what") == "ended_before");
  CHECK(offset_of(found.at("evidence").at("freed_before_at")) == 0x50);
}

TEST_CASE("a free of an address that no allocation returned says that alone", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.free(kAddress, MemoryKind::kDevice, call_at(0x30, 1));
  const Json found = finding_of(trace, "invalid_free");
  CHECK(found.at("evidence").at("what") == "nothing_known");
  CHECK(found.at("evidence").at("allocated_at").is_null());
  CHECK(has(found, "the trace shows no allocation at the address"));
}

TEST_CASE("a leak tells which frees of it were tried and refused", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(kAddress, kMiB, MemoryKind::kDevice, call_at(0x10));
  for (int i = 0; i < 3; ++i) trace.free(kAddress, MemoryKind::kDevice, call_at(0x30, 800));
  const Json found = finding_of(trace, "leak");
  CHECK(has(found, "A free was tried 3 times at libmine.so"));
  CHECK(has(found, "refused (800, not permitted: from a callback of the stream)"));
  CHECK(has(found, "Free it outside of the callback"));
  CHECK(found.at("evidence").at("refused_frees") == 3);
}

TEST_CASE("a leak tells how many of its place's allocations it is", "[unit]") {
  TraceBuilder trace = program_trace();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    trace.allocate(i * kAddress, kMiB, MemoryKind::kDevice, call_at(0x10));
  }
  trace.free(kAddress);
  trace.free(2 * kAddress);
  const Json found = finding_of(trace, "leak");
  CHECK(found.at("evidence").at("allocations") == 3);
  CHECK(has(found, "1.0 MiB leaked at libmine.so"));
  CHECK(has(found, "1 of 3 allocations there"));
}

TEST_CASE("frees of one line that several stacks end in are all there", "[unit]") {
  for (const bool is_elsewhere : {false, true}) {
    TraceBuilder trace = program_trace();
    add_code(trace, 1, "release", "/job/train.py", 9);
    add_code(trace, 2, "main", "/job/train.py", 20);
    add_code(trace, 3, is_elsewhere ? "clear" : "other_main", "/job/train.py", 30);
    add_stack(trace, 1, {{1, 2}, {}});
    add_stack(trace, 2, is_elsewhere ? StackFrames{{3}, {}} : StackFrames{{1, 3}, {}});
    for (std::uint64_t i = 1; i <= 3; ++i) {
      trace.allocate(0x900000000 + i * kMiB, kMiB, MemoryKind::kDevice, call_at(0x10));
    }
    for (const std::uint32_t stack : {1u, 2u}) {
      Free record;
      record.address = 0x900000000 + stack * kMiB;
      record.memory = MemoryKind::kDevice;
      record.call.stack = StackId{stack};
      trace.add_call(record, call_at(0x20));
    }
    const Json found = finding_of(trace, "leak");
    CHECK(has(found, is_elsewhere ? "2 of 3 were freed, some at train.py:9 (release)"
                                  : "2 of 3 were freed, at train.py:9 (release)"));
  }
}

TEST_CASE("a handle that is left open tells how many its place opened", "[unit]") {
  TraceBuilder trace = program_trace();
  Pool pool;
  pool.operation = PoolOperation::kCreate;
  pool.device = 0;
  for (pool.pool = 1; pool.pool <= 3; ++pool.pool) trace.add_call(pool, call_at(0x10));
  pool.operation = PoolOperation::kDestroy;
  for (pool.pool = 1; pool.pool <= 2; ++pool.pool) trace.add_call(pool, call_at(0x20));
  const Json found = finding_of(trace, "unreleased_handle");
  CHECK(found.at("evidence").at("opened_count") == 3);
  CHECK(has(found, "1 of 3 opened there"));
}

TEST_CASE("memory left to its context names the call that ended it", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(kAddress, kMiB, MemoryKind::kDevice, call_at(0x10));
  trace.context_call(ContextOperation::kResetPrimary, 1, 0, call_at(0x50));
  const Json found = finding_of(trace, "leak_until_context_end");
  CHECK(offset_of(found.at("site").is_null() ? Json() : Json{{"site", found.at("site")}}) == 0x10);
  CHECK(offset_of(found.at("evidence").at("ended_at")) == 0x50);
  CHECK(has(found, "the reset of the device at libmine.so"));
}

TEST_CASE("ping-pong names the copies down and what both ways took", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(kAddress, 2 * kMiB);
  trace.allocate(kHostAddress, 2 * kMiB, MemoryKind::kPinned);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::uint64_t at = trace.now() + 100;
    Call down = call_at(0x20, 0, kFlagAsynchronous);
    down.start = at;
    down.end = at + 300;
    trace.copy(kHostAddress, EndType::kHost, kAddress, EndType::kDevice, 2 * kMiB, down);
    Call up = call_at(0x30, 0, kFlagAsynchronous);
    up.start = at + 400;
    up.end = at + 500;
    trace.copy(kAddress, EndType::kDevice, kHostAddress, EndType::kHost, 2 * kMiB, up);
  }
  const Json found = finding_of(trace, "ping_pong");
  CHECK(offset_of(found.at("evidence").at("down_at")) == 0x20);
  CHECK(found.at("evidence").at("time_lost_ns") == 20 * 100);
  CHECK(found.at("evidence").at("returned_host_ns") == 20 * 400);
  CHECK(has(found, "those of both ways 8.0 us"));
}

TEST_CASE("growth of pinned memory is told as such", "[unit]") {
  TraceBuilder trace = program_trace();
  for (std::uint64_t round = 0; round < 500; ++round) {
    trace.allocate(kAddress, kMiB, MemoryKind::kStreamOrdered, call_at(0x20));
    trace.free(kAddress, MemoryKind::kStreamOrdered);
    if (round % 10 != 9) continue;
    trace.allocate(kHostAddress + round * kMiB, kMiB, MemoryKind::kPinned, call_at(0x10));
  }
  CHECK(has(finding_of(trace, "growth"), "Pinned memory from libmine.so"));
}

TEST_CASE("churn of a library that no line asks for is for information", "[unit]") {
  TraceBuilder trace = program_trace();
  for (int i = 0; i < 300; ++i) {
    trace.allocate(kHostAddress, kMiB, MemoryKind::kPinned);
    trace.free(kHostAddress, MemoryKind::kPinned);
  }
  const Json found = finding_of(trace, "pinned_churn");
  CHECK(found.at("severity") == "info");
  CHECK(has(found, "code of a library allocates pinned memory"));
  CHECK(has(found, "No line of the program asks for it"));
}

TEST_CASE("churn names the line that frees", "[unit]") {
  TraceBuilder trace = program_trace();
  for (int i = 0; i < 300; ++i) {
    trace.allocate(kHostAddress, kMiB, MemoryKind::kPinned, call_at(0x10));
    trace.free(kHostAddress, MemoryKind::kPinned, call_at(0x20));
  }
  const Json found = finding_of(trace, "pinned_churn");
  CHECK(offset_of(found.at("evidence").at("freed_at")) == 0x20);
  CHECK(has(found, "freed it again at libmine.so"));
}

namespace {

// The growth at a place that keeps a block in every tenth round; calls are `pause_ns` apart.
Json growth_with_pauses_of(std::uint64_t pause_ns) {
  TraceBuilder trace = program_trace();
  std::uint64_t at = trace.now();
  const auto next = [&at, pause_ns](Call call) {
    call.start = at += pause_ns;
    return call;
  };
  for (std::uint64_t round = 0; round < 500; ++round) {
    trace.allocate(kAddress, kMiB, MemoryKind::kStreamOrdered, next(call_at(0x20)));
    trace.free(kAddress, MemoryKind::kStreamOrdered, next({}));
    // The same place also allocates a large block, which does not stay.
    trace.allocate(2 * kAddress, 8 * kMiB, MemoryKind::kDevice, next(call_at(0x10)));
    trace.free(2 * kAddress, MemoryKind::kDevice, next({}));
    if (round % 10 != 9) continue;
    trace.allocate(kAddress + round * kMiB, 64 * 1024, MemoryKind::kDevice, next(call_at(0x10)));
  }
  return finding_of(trace, "growth");
}

// Rank 1 makes a context on the device of rank 0.
Json report_of_context_elsewhere(bool opens_memory) {
  const TemporaryFolder folder;
  for (const std::uint32_t rank : {0u, 1u}) {
    TraceBuilder trace = program_trace(10 + rank);
    trace.text(TextKey::kLocalRank, std::to_string(rank));
    trace.device(0, 0x1234, 1024 * kMiB);
    trace.device(1, 0x5678, 1024 * kMiB);
    if (rank == 1) {
      trace.context(2, 1);
      trace.context_call(ContextOperation::kRetainPrimary, 1, 0, call_at(0x60));
      trace.context_call(ContextOperation::kRetainPrimary, 1, 0, call_at(0x70));
    }
    if (rank == 1 && opens_memory) {
      trace::Import opened;
      opened.operation = trace::ImportOperation::kIpcOpen;
      opened.address = 2 * kAddress;
      opened.bytes = kMiB;
      trace.add_call(opened, {.context = 1});
    }
    trace.allocate(kAddress, 100 * kMiB, MemoryKind::kDevice, {.context = 1 + rank});
    trace.free(kAddress);
    trace.write(folder.path());
  }
  return analyze_json({folder.path()}, {});
}

}  // namespace

TEST_CASE("growth tells from when to when, how many blocks and how fast", "[unit]") {
  const Json found = growth_with_pauses_of(2'000'000);
  const auto blocks = found.at("bytes").get<std::uint64_t>() / (64 * 1024);
  CHECK(has(found, std::to_string(blocks) + " blocks of 64.0 KiB"));
  CHECK((has(found, " a second") || has(found, " a repetition over ")));
  CHECK(has(found, " from "));
}

TEST_CASE("a rate a second is not told of milliseconds", "[unit]") {
  CHECK_FALSE(has(growth_with_pauses_of(10), " a second"));
}

TEST_CASE("a context on another rank's device names the call that opened it", "[unit]") {
  const Json report = report_of_context_elsewhere(false);
  REQUIRE(report.at("findings").size() == 1);
  const Json found = report.at("findings")[0];
  CHECK(found.at("rule") == "wrong_device");
  CHECK(found.at("site").is_null());
  CHECK(offset_of(found.at("evidence").at("opened_at")) == 0x60);
  CHECK(has(found, "cudaSetDevice"));
  CHECK_FALSE(has(found, "torch"));
}

TEST_CASE("a context in which another rank's memory is open is no fault", "[unit]") {
  CHECK(row_where(report_of_context_elsewhere(true).at("findings"), {{"rule", "wrong_device"}})
            .is_null());
}

TEST_CASE("what a failed request misses counts what else is in use on the device", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.device(0, 0x1234, 100 * kMiB);
  MemorySample sample;  // only the context takes memory yet
  sample.source = SampleSource::kMemGetInfo;
  sample.device = 0;
  sample.free_bytes = 90 * kMiB;
  sample.total_bytes = 100 * kMiB;
  trace.add(sample);
  trace.allocate(kAddress, 50 * kMiB, MemoryKind::kDevice, call_at(0x10));
  trace.allocate(0, 60 * kMiB, MemoryKind::kDevice, call_at(0x20, 2));
  trace.free(kAddress);
  const Json report = report_of(trace);
  const Json composition = report.at("oom")[0].at("composition");
  CHECK(composition.at("outside_calls") == 10 * kMiB);
  CHECK(composition.at("sample_time_ns") < composition.at("time_ns"));
  CHECK(composition.at("driver_bytes") == 10 * kMiB);
  const Json found = report.at("findings")[0];
  CHECK(found.at("rule") == "out_of_memory");
  CHECK(has(found, "free 20.0 MiB before it"));
}

TEST_CASE("a request that fails among pieces names whose blocks lie between them", "[unit]") {
  TraceBuilder trace;
  trace.device(0, 0x1234, 200 * kMiB);
  strand_memory(trace);
  trace.allocate(0, 100 * kMiB, MemoryKind::kDevice, {.result = 2});
  trace.framework_oom(100 * kMiB);
  const Json found = report_of(trace).at("findings")[0];
  CHECK(found.at("evidence").at("verdict") == "fragmented");
  CHECK(has(found, "190.00 MiB free in PyTorch's cache (largest piece 19.00 MiB)"));
  CHECK(has(found, "190.0 MiB that PyTorch keeps free in pieces"));
}

TEST_CASE("a library alone is no second place beside a line", "[unit]") {
  using namespace gpumemtrace::analyzer;
  rows::CodeLocation freed;
  freed.site.module = "program";
  freed.site.api = "cudaFreeAsync";
  rows::Site own;
  own.module = "program";
  CHECK(location_text(freed, own) == "program (cudaFreeAsync)");
  own.file = "/src/main.cu";
  own.line = 10;
  CHECK(location_text(freed, own).empty());
  freed.site.function = "release";
  CHECK(location_text(freed, own) == "program (release)");
}

}  // namespace gpumemtrace::rules_places_test
