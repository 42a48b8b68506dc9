// SPDX-License-Identifier: Apache-2.0
// Each rule on a small trace with one fault, and on its clean twin.
#include <cstdlib>
#include <set>

#include "analyzer/findings/rule_table.hpp"
#include "tests/catch.hpp"
#include "tests/support/finding_query.hpp"

namespace gpumemtrace::rules_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::int64_t kSigned = static_cast<std::int64_t>(kMiB);
// A round of a loop: one temporary allocation of the driver, freed again.
void round_trip(TraceBuilder& trace, std::uint64_t address = 0x900000000) {
  trace.allocate(address, kMiB, MemoryKind::kStreamOrdered, {.caller = kProgram + 0x20});
  trace.free(address, MemoryKind::kStreamOrdered);
}

void keep(TraceBuilder& trace, std::uint64_t number, std::uint64_t bytes = 64 * 1024) {
  trace.allocate(0x100000000 + number * kMiB, bytes, MemoryKind::kDevice, {.caller = kLeaky});
}

void drop(TraceBuilder& trace, std::uint64_t number) { trace.free(0x100000000 + number * kMiB); }

}  // namespace

TEST_CASE("what the program lost is an error at its place", "[unit]") {
  TraceBuilder trace = program_trace();
  keep(trace, 1);
  keep(trace, 2);
  round_trip(trace);
  const Json found = findings_of(trace, "leak");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "error");
  CHECK(found[0].at("confidence") == "exact");
  CHECK(found[0].at("bytes") == 128 * 1024);
  CHECK(found[0].at("owner") == "program");
  CHECK(found[0].at("site").at("module") == "libmine.so");
  CHECK(found[0].at("evidence").at("count") == 2);
  CHECK(found[0].at("fix").get<std::string>().find("cuMemFree") != std::string::npos);
}

TEST_CASE("nothing is lost where all is freed, kept by a library or cut by a kill", "[unit]") {
  TraceBuilder freed = program_trace();
  keep(freed, 1);
  drop(freed, 1);
  CHECK(report_of(freed).at("findings").empty());

  const auto kept_by = [](const char* module) {
    TraceBuilder trace;
    trace.module(0x1000, 0x2000, module);
    trace.allocate(0x100000000, kMiB);
    return report_of(trace).at("findings");
  };
  CHECK(kept_by("/usr/lib/libcublas.so.13").empty());
  CHECK(kept_by("/home/me/libmine.so").size() == 1);

  TraceBuilder killed = program_trace();
  keep(killed, 1);
  CHECK(report_of(killed, Ending::kKilled).at("findings").empty());
}

TEST_CASE("an unknown allocator in a Python process is no error", "[unit]") {
  TraceBuilder trace;
  trace.text(TextKey::kExecutable, "/usr/bin/python3.12");
  trace.allocate(0x100000000, kMiB);
  const Json found = findings_of(trace, "leak");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "warning");
  CHECK(found[0].at("confidence") == "inferred");
}

TEST_CASE("a few bytes of an unknown allocator in a Python process come last", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.text(TextKey::kExecutable, "/usr/bin/python3.12");
  trace.allocate(0x100000000, 4);
  for (int i = 0; i < 300; ++i) {
    trace.allocate(0x40000000, kMiB, MemoryKind::kPinned, {.caller = kProgram + 0x40});
    trace.free(0x40000000, MemoryKind::kPinned);
  }
  const Json found = report_of(trace).at("findings");
  REQUIRE(found.size() == 2);
  CHECK(found[0].at("rule") == "pinned_churn");
  CHECK(found[1].at("rule") == "leak");
}

TEST_CASE("memory that a context's end freed is told apart from lost memory", "[unit]") {
  TraceBuilder trace = program_trace();
  keep(trace, 1);
  trace.context_call(ContextOperation::kResetPrimary, 1);
  CHECK(findings_of(trace, "leak").empty());
  CHECK(findings_of(trace, "leak_until_context_end").size() == 1);
}

TEST_CASE("a second free is an error", "[unit]") {
  TraceBuilder trace = program_trace();
  keep(trace, 1);
  drop(trace, 1);
  trace.free(0x100000000 + kMiB, MemoryKind::kDevice, {.result = 1, .caller = kLeaky});
  const Json found = findings_of(trace, "invalid_free");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "error");
  CHECK(found[0].at("evidence").at("address_was_live") == false);
}

TEST_CASE("a handle of another process's memory that is not closed is named", "[unit]") {
  for (const bool closed : {true, false}) {
    TraceBuilder trace = program_trace();
    Import record;
    record.operation = ImportOperation::kIpcOpen;
    record.address = 0x700000000;
    record.bytes = kMiB;
    trace.add_call(record, {.caller = kLeaky});
    if (closed) {
      record.operation = ImportOperation::kIpcClose;
      trace.add_call(record, {});
    }
    CHECK(findings_of(trace, "unreleased_handle").size() == (closed ? 0 : 1));
  }
}

TEST_CASE("a leak names the range in which it began", "[unit]") {
  TraceBuilder trace = program_trace();
  const auto annotate = [&trace](AnnotationOperation operation, std::uint32_t name) {
    Annotation record;
    record.operation = operation;
    record.name = name;
    trace.add(record);
  };
  Name outer;
  outer.id = 1;
  trace.add(outer, 1, "suite");
  Name inner;
  inner.id = 2;
  trace.add(inner, 1, "test of the cache");
  annotate(AnnotationOperation::kPush, 1);
  annotate(AnnotationOperation::kPush, 2);
  keep(trace, 1);
  annotate(AnnotationOperation::kPop, 0);
  annotate(AnnotationOperation::kPop, 0);
  const Json found = findings_of(trace, "leak");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("evidence").at("range") == "test of the cache");
}

TEST_CASE("one block kept in every tenth round is growth", "[unit]") {
  TraceBuilder trace = program_trace();
  for (std::uint64_t round = 0; round < 500; ++round) {
    round_trip(trace);
    if (round % 10 == 9) keep(trace, round);
  }
  const Json found = findings_of(trace, "growth");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("confidence") == "heuristic");
  CHECK(found[0].at("evidence").at("bytes_per_step").is_null());
  // The growth is 50 blocks of 64 KiB, less those of the warm-up.
  CHECK(found[0].at("bytes") > 30 * 64 * 1024);
  CHECK(found[0].at("bytes") <= 50 * 64 * 1024);
}

TEST_CASE("growth of what is never freed has the cause of the leak, other growth its own",
          "[unit]") {
  const auto grows = [](bool is_freed) {
    TraceBuilder trace = program_trace();
    for (std::uint64_t round = 0; round < 500; ++round) {
      trace.step(round);
      round_trip(trace);
      keep(trace, round);
    }
    for (std::uint64_t round = 0; is_freed && round < 500; ++round) drop(trace, round);
    return report_of(trace).at("findings");
  };
  const Json leaked = grows(false);
  REQUIRE(leaked.size() == 2);
  const Json& leak = leaked[0];
  const Json& growth = leaked[1];
  REQUIRE(leak.at("rule") == "leak");
  REQUIRE(growth.at("rule") == "growth");
  CHECK(growth.at("same_cause") == leak.at("fingerprint"));
  CHECK_FALSE(leak.contains("same_cause"));
  CHECK(leak.at("evidence").at("growth_bytes") == growth.at("bytes"));
  CHECK(leak.at("evidence").at("growth_bytes_per_step") ==
        growth.at("evidence").at("bytes_per_step"));
  const auto detail = leak.at("detail").get<std::string>();
  CHECK(detail.find("It grew throughout the run, by ") != std::string::npos);
  CHECK(detail.find(" a step over ") != std::string::npos);

  std::set<std::string> rules;
  for (const Json& finding : grows(true)) {
    rules.insert(finding.at("rule"));
    CHECK_FALSE(finding.contains("same_cause"));
  }
  CHECK(rules.count("growth") == 1);
  CHECK(rules.count("leak") == 0);
}

TEST_CASE("a leak that does not account for the growth of its line is a fault of its own",
          "[unit]") {
  TraceBuilder trace = program_trace();
  for (std::uint64_t round = 0; round < 500; ++round) {
    round_trip(trace);
    keep(trace, round);
  }
  for (std::uint64_t round = 1; round < 500; ++round) drop(trace, round);
  const Json growth = findings_of(trace, "growth");
  REQUIRE(growth.size() == 1);
  CHECK_FALSE(growth[0].contains("same_cause"));
  const Json leak = findings_of(trace, "leak");
  REQUIRE(leak.size() == 1);
  CHECK_FALSE(leak[0].at("evidence").contains("growth_bytes"));
}

TEST_CASE("growth is told by the step where the job has steps", "[unit]") {
  // A report on more than a thousand steps has the first and the last ones, and some between.
  for (const std::uint64_t rounds : {500, 1200}) {
    TraceBuilder trace = program_trace();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      trace.step(round);
      round_trip(trace);
      keep(trace, round, 64 * 1024);
    }
    const Json found = findings_of(trace, "growth");
    REQUIRE(found.size() == 1);
    CHECK(found[0].at("confidence") == "inferred");
    CHECK(found[0].at("evidence").at("bytes_per_step").get<double>() ==
          Approx(64 * 1024).epsilon(0.05));
  }
}

TEST_CASE("growth without a consequence is for information", "[unit]") {
  const auto grow = [](std::uint64_t device_mib, std::uint64_t bytes, bool has_steps) {
    TraceBuilder trace = program_trace();
    trace.device(0, 0x1234, device_mib * kMiB);
    for (std::uint64_t round = 0; round < 500; ++round) {
      if (has_steps) trace.step(round);
      round_trip(trace);
      keep(trace, round, bytes);
    }
    for (std::uint64_t round = 0; round < 500; ++round) drop(trace, round);
    const Json found = findings_of(trace, "growth");
    REQUIRE(found.size() == 1);
    return found[0];
  };
  constexpr std::uint64_t kKiB = 1024;
  constexpr std::uint64_t kLarge = 80 * 1024;
  CHECK(grow(kLarge, 8 * kKiB, true).at("severity") == "info");
  CHECK(grow(kLarge, 512 * kKiB, true).at("severity") == "info");  // full after 160,000 steps
  CHECK(text_of(grow(kLarge, 8 * kKiB, true)).find("the rest of the device lasts for 10,4") !=
        std::string::npos);
  CHECK(grow(kLarge, 1000 * kKiB, true).at("severity") == "warning");  // full after 80,000 steps
  CHECK(grow(300, 8 * kKiB, true).at("severity") == "warning");        // takes 1 % of the device
  CHECK(grow(kLarge, 8 * kKiB, false).at("severity") == "warning");    // full within a day
}

TEST_CASE("repetitions that nothing called steps are no steps", "[unit]") {
  TraceBuilder trace = program_trace();
  for (std::uint64_t round = 0; round < 3000; ++round) {
    trace.wait_until(round * 1'000'000'000);
    for (std::uint64_t i = 0; i < 3; ++i) round_trip(trace, 0x900000000 + i * kMiB);
    keep(trace, round);
  }
  const Json found = findings_of(trace, "growth");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("evidence").at("by_repetition") == true);
  CHECK(text_of(found[0]).find(" a repetition over ") != std::string::npos);
  CHECK(text_of(found[0]).find(" a step") == std::string::npos);
}

TEST_CASE("growth under noise is growth, freed at the end or not", "[unit]") {
  TraceBuilder trace = program_trace();
  for (std::uint64_t round = 0; round < 2000; ++round) {
    round_trip(trace);
    // Each round also has one to four short-lived blocks of the same place.
    const std::uint64_t noise = 1 + round * 7 % 4;
    for (std::uint64_t i = 0; i < noise; ++i) keep(trace, 5000 + i);
    for (std::uint64_t i = 0; i < noise; ++i) drop(trace, 5000 + i);
    if (round % 50 == 49) keep(trace, round);
  }
  for (std::uint64_t round = 49; round < 2000; round += 50) drop(trace, round);
  CHECK(findings_of(trace, "growth").size() == 1);
  CHECK(findings_of(trace, "leak").empty());
}

TEST_CASE("a sawtooth, a cache that fills once and a program that builds up are no growth",
          "[unit]") {
  TraceBuilder sawtooth = program_trace();
  for (std::uint64_t round = 0; round < 600; ++round) {
    round_trip(sawtooth);
    keep(sawtooth, round % 50);
    if (round % 50 == 49) {
      for (std::uint64_t i = 0; i < 50; ++i) drop(sawtooth, i);
    }
  }
  CHECK(findings_of(sawtooth, "growth").empty());

  // Each tooth of the sawtooth leaves a little memory, as results do that become longer.
  TraceBuilder longer = program_trace();
  for (std::uint64_t round = 0; round < 600; ++round) {
    round_trip(longer);
    keep(longer, round % 50);
    if (round % 50 != 49) continue;
    const std::uint64_t tooth = round / 50;
    keep(longer, 50 + tooth % 2, 512 * (tooth + 1));
    if (tooth != 0) drop(longer, 51 - tooth % 2);
    for (std::uint64_t i = 0; i < 50; ++i) drop(longer, i);
  }
  CHECK(findings_of(longer, "growth").empty());

  TraceBuilder cache = program_trace();
  for (std::uint64_t round = 0; round < 500; ++round) {
    if (round < 40) keep(cache, round);
    round_trip(cache);
  }
  CHECK(findings_of(cache, "growth").empty());

  TraceBuilder building = program_trace();
  for (std::uint64_t i = 0; i < 500; ++i) keep(building, i);
  for (std::uint64_t i = 0; i < 500; ++i) drop(building, i);
  CHECK(findings_of(building, "growth").empty());
}

TEST_CASE("pageable memory makes asynchronous copies wait", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(0x900000000, 64 * kMiB);
  trace.allocate(0x40000000, 64 * kMiB, MemoryKind::kPinned);
  const Call asynchronous{.flags = kFlagAsynchronous, .caller = kProgram + 0x30};
  for (int i = 0; i < 20; ++i) {
    trace.copy(0x900000000, EndType::kDevice, 0x70000000, EndType::kHost, 2 * kMiB, asynchronous);
    trace.copy(0x900000000, EndType::kDevice, 0x40000000, EndType::kHost, 2 * kMiB, asynchronous);
  }
  const Json found = findings_of(trace, "pageable_copies");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("bytes") == 40 * kMiB);
  CHECK(found[0].at("evidence").at("count") == 20);
  const Json report = report_of(trace);
  CHECK(report.at("transfers").at("hotspots").size() == 1);
}

TEST_CASE("a pool is opaque where its library keeps what it takes, and only for that memory",
          "[unit]") {
  constexpr std::uint64_t kPlugin = 0x200000;
  const auto traced = [](bool gives_back) {
    TraceBuilder trace = program_trace();
    trace.module(kPlugin, kPlugin + 0x10000, "/env/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
    for (std::uint64_t i = 0; i < 10; ++i) {
      const std::uint64_t address = 0x900000000 + i * 64 * kMiB;
      trace.allocate(address, 32 * kMiB, MemoryKind::kDevice, {.caller = kPlugin + 0x10});
      if (gives_back) trace.free(address);
    }
    trace.allocate(0x800000000, 100 * kMiB, MemoryKind::kPitched, {.caller = kLeaky});
    return trace;
  };
  TraceBuilder keeping = traced(false);
  const Json found = findings_of(keeping, "opaque_pool");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("bytes") == 320 * kMiB);
  TraceBuilder passing_on = traced(true);
  CHECK(findings_of(passing_on, "opaque_pool").empty());
}

TEST_CASE("what is copied once from pageable memory, as a model that is loaded, is no fault",
          "[unit]") {
  // A hundred copies, one after the other, to `places` different addresses of the device.
  const auto copies_to = [](std::uint64_t places) {
    TraceBuilder trace = program_trace();
    trace.allocate(0x900000000, 400 * kMiB);
    const Call asynchronous{.flags = kFlagAsynchronous, .caller = kProgram + 0x30};
    for (std::uint64_t i = 0; i < 100; ++i) {
      trace.copy(0x900000000 + i % places * 4 * kMiB, EndType::kDevice, 0x70000000, EndType::kHost,
                 2 * kMiB, asynchronous);
    }
    return findings_of(trace, "pageable_copies").size();
  };
  CHECK(copies_to(100) == 0);
  CHECK(copies_to(10) == 1);
}

TEST_CASE("reading a value back in every round waits, whatever the call is named", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(0x900000000, kMiB);
  for (int i = 0; i < 200; ++i) {
    trace.copy(0x70000000, EndType::kHost, 0x900000000, EndType::kDevice, 4,
               {.flags = kFlagAsynchronous, .caller = kProgram + 0x30});
  }
  const Json found = findings_of(trace, "synchronous_copies");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("evidence").at("mean_bytes") == 4);

  TraceBuilder seldom = program_trace();
  seldom.allocate(0x900000000, kMiB);
  for (int i = 0; i < 20; ++i) {
    seldom.copy(0x70000000, EndType::kHost, 0x900000000, EndType::kDevice, 4);
  }
  CHECK(findings_of(seldom, "synchronous_copies").empty());
}

TEST_CASE("many small copies from one place are one finding", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(0x900000000, kMiB);
  trace.allocate(0x40000000, 64 * kMiB, MemoryKind::kPinned);
  for (int i = 0; i < 1500; ++i) {
    trace.copy(0x900000000, EndType::kDevice, 0x40000000, EndType::kHost, 512,
               {.flags = kFlagAsynchronous, .caller = kProgram + 0x30});
  }
  CHECK(findings_of(trace, "small_copies").size() == 1);
  CHECK(findings_of(trace, "synchronous_copies").empty());
}

TEST_CASE("driver memory that comes and goes in every round is churn", "[unit]") {
  TraceBuilder trace = program_trace();
  for (std::uint64_t i = 0; i < 300; ++i) {
    keep(trace, 1);
    drop(trace, 1);
    trace.allocate(0x40000000, kMiB, MemoryKind::kPinned, {.caller = kProgram + 0x40});
    trace.free(0x40000000, MemoryKind::kPinned);
    round_trip(trace);  // memory of a pool is no churn
  }
  const Json found = findings_of(trace, "allocation_churn");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("evidence").at("allocations") == 300);
  CHECK(found[0].at("evidence").at("time_in_calls_ns") > 0);
  CHECK(findings_of(trace, "pinned_churn").size() == 1);
}

TEST_CASE("free memory beside live blocks is named with the blocks that pin it", "[unit]") {
  TraceBuilder trace;
  strand_memory(trace);
  const Json found = findings_of(trace, "fragmentation");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("bytes") == 190 * kMiB);
  CHECK(found[0].at("severity") == "warning");
  CHECK(found[0].at("owner") == "pytorch");
  CHECK(found[0].at("fix").get<std::string>().find("expandable_segments") != std::string::npos);
}

TEST_CASE("what little of a large device is free in pieces is no warning", "[unit]") {
  TraceBuilder large;
  large.device(0, 0x1234, 80'000 * kMiB);
  strand_memory(large);
  CHECK(findings_of(large, "fragmentation").at(0).at("severity") == "info");

  TraceBuilder refused;
  refused.device(0, 0x1234, 80'000 * kMiB);
  strand_memory(refused);
  refused.framework_oom(14 * kMiB);
  CHECK(findings_of(refused, "fragmentation").at(0).at("severity") == "warning");
}

TEST_CASE("out of memory that was raised comes first and tells PyTorch's ledger", "[unit]") {
  TraceBuilder trace;
  trace.device(0, 0x1234, 100 * kMiB);
  trace.allocate(0x200000000, 20 * kMiB);
  trace.block(0x200000000, 6 * kSigned, 20 * kMiB);
  trace.block(0x200600000, 8 * kSigned, 20 * kMiB);
  trace.block(0x200000000, -6 * kSigned, 20 * kMiB);
  trace.sample(30 * kMiB, 60 * kMiB);
  trace.allocate(0, 14 * kMiB, MemoryKind::kDevice, {.result = 2});
  trace.framework_oom(14 * kMiB);
  const Json report = report_of(trace);
  const Json finding = report.at("findings").at(0);
  CHECK(finding.at("rule") == "out_of_memory");
  CHECK(finding.at("severity") == "error");
  const Json ledger = finding.at("evidence").at("ledger");
  CHECK(ledger.at("tried_to_allocate") == 14 * kMiB);
  CHECK(ledger.at("total_capacity") == 100 * kMiB);
  CHECK(ledger.at("free") == 10 * kMiB);
  CHECK(ledger.at("process_in_use") == 30 * kMiB);
  CHECK(ledger.at("allocated_by_pytorch") == 8 * kMiB);
  CHECK(ledger.at("reserved_by_pytorch_but_unallocated") == 12 * kMiB);
  CHECK(ledger.at("non_pytorch") == 10 * kMiB);
  CHECK(ledger.at("other_processes") == 60 * kMiB);
  CHECK(finding.at("fix").get<std::string>().find("4.0 MiB") != std::string::npos);
}

TEST_CASE("a rank that holds memory on another rank's device is named", "[unit]") {
  const TemporaryFolder folder;
  for (const std::uint32_t rank : {0u, 1u}) {
    TraceBuilder trace = program_trace(10 + rank);
    trace.text(TextKey::kLocalRank, std::to_string(rank));
    if (rank == 1) trace.context(2, 1);
    trace.device(0, 0x1234, 1024 * kMiB);
    trace.device(1, 0x5678, 1024 * kMiB);
    trace.allocate(0x900000000, 100 * kMiB, MemoryKind::kDevice, {.context = 1 + rank});
    if (rank == 1) {
      trace.allocate(0xa00000000, 3 * kMiB, MemoryKind::kDevice, {.context = 1});
      trace.free(0xa00000000);
    }
    trace.free(0x900000000);
    trace.write(folder.path());
  }
  const Json report = analyze_json({folder.path()}, {});
  REQUIRE(report.at("findings").size() == 1);
  const Json finding = report.at("findings").at(0);
  CHECK(finding.at("rule") == "wrong_device");
  CHECK(finding.at("bytes") == 3 * kMiB);
  CHECK(finding.at("evidence").at("rank_of_the_device") == 0);
}

TEST_CASE("a context on another rank's device is named although it holds nothing", "[unit]") {
  const TemporaryFolder folder;
  for (const std::uint32_t rank : {0u, 1u}) {
    TraceBuilder trace = program_trace(10 + rank);
    trace.text(TextKey::kLocalRank, std::to_string(rank));
    trace.device(0, 0x1234, 1024 * kMiB);
    trace.device(1, 0x5678, 1024 * kMiB);
    if (rank == 1) trace.context(2, 1);
    trace.allocate(0x900000000, 100 * kMiB, MemoryKind::kDevice, {.context = 1 + rank});
    trace.free(0x900000000);
    trace.write(folder.path());
  }
  const Json report = analyze_json({folder.path()}, {});
  REQUIRE(report.at("findings").size() == 1);
  const Json finding = report.at("findings").at(0);
  CHECK(finding.at("rule") == "wrong_device");
  CHECK(finding.at("bytes").is_null());
  CHECK(finding.at("evidence").at("local_rank") == 1);
}

// Ranks without leaks that peak at these sizes, in MiB. A rank with a negative size requests that
// much as its last act; the request is too large, and the framework gives up.
Json report_of_ranks(const std::vector<std::int64_t>& mebibytes, std::uint64_t device_bytes = 0) {
  const TemporaryFolder folder;
  for (std::uint32_t rank = 0; rank < mebibytes.size(); ++rank) {
    TraceBuilder trace = program_trace(10 + rank);
    trace.text(TextKey::kRank, std::to_string(rank));
    if (device_bytes != 0) trace.device(0, 0x1000 + rank, device_bytes);
    const std::int64_t size = mebibytes[rank];
    const std::uint64_t bytes = static_cast<std::uint64_t>(std::abs(size)) * kMiB;
    trace.allocate(0x900000000, size < 0 ? 100 * kMiB : bytes, MemoryKind::kDevice,
                   {.caller = kProgram + 0x20});
    trace.free(0x900000000);
    if (size < 0) {
      trace.wait_until(1'000'000 * (10 - rank));
      trace.framework_oom(bytes);
    }
    trace.write(folder.path());
  }
  return analyze_json({folder.path()}, {});
}

TEST_CASE("a rank that holds more or less than the others is named", "[unit]") {
  const Json more = report_of_ranks({400, 1000, 410, 405}).at("findings");
  REQUIRE(more.size() == 1);
  CHECK(more[0].at("rule") == "rank_imbalance");
  CHECK(more[0].at("evidence").at("rank") == 1);
  CHECK(more[0].at("bytes") == 595 * kMiB);
  CHECK(more[0].at("detail").get<std::string>().find("libmine.so") != std::string::npos);

  const Json less = report_of_ranks({400, 100, 410, 405}).at("findings");
  REQUIRE(less.size() == 1);
  CHECK(less[0].at("title").get<std::string>().find("less than the others") != std::string::npos);

  CHECK(report_of_ranks({400, 420, 410, 405}).at("findings").empty());  // 5 % more is normal
  CHECK(report_of_ranks({10, 50}).at("findings").empty());  // 40 MiB more are too little to report
  const Json two = report_of_ranks({400, 800}).at("findings");
  REQUIRE(two.size() == 1);
  CHECK(two[0].at("evidence").at("rank") == 1);
}

TEST_CASE("ranks that differ are a warning where the largest is near its limit", "[unit]") {
  const auto severity_of = [](const std::vector<std::int64_t>& mebibytes, std::uint64_t device) {
    const Json found = report_of_ranks(mebibytes, device * kMiB).at("findings");
    for (const Json& finding : found) {
      if (finding.at("rule") == "rank_imbalance") return finding.at("severity").get<std::string>();
    }
    return std::string("none");
  };
  CHECK(severity_of({400, 1000, 410, 405}, 1200) == "warning");
  CHECK(severity_of({400, 100, 410, 405}, 500) == "warning");
  CHECK(severity_of({400, 1000, 410, 405}, 4000) == "info");
  CHECK(severity_of({400, 1000, 410, 405}, 0) == "info");  // the devices' size is not known
}

TEST_CASE("the rank that ran out of memory first is named", "[unit]") {
  const Json report = report_of_ranks({-500, -500});
  std::size_t firsts = 0;
  for (const Json& finding : report.at("findings")) {
    CHECK(finding.at("rule") == "out_of_memory");
    CHECK(finding.at("evidence").at("first_rank_to_fail") == 1);
    const auto detail = finding.at("detail").get<std::string>();
    const bool is_first = detail.find("It was the first rank to fail") != std::string::npos;
    firsts += is_first ? 1 : 0;
    CHECK(is_first == (finding.at("evidence").at("rank") == 1));
  }
  CHECK(firsts == 1);
}

TEST_CASE("bytes that go down and come back to their place are ping-pong", "[unit]") {
  const Call asynchronous{.flags = kFlagAsynchronous, .caller = kProgram + 0x30};
  const auto report_of_trips = [&](std::uint64_t step_bytes, bool down) {
    TraceBuilder trace = program_trace();
    trace.allocate(0x900000000, 64 * kMiB);
    trace.allocate(0x40000000, 64 * kMiB, MemoryKind::kPinned);
    for (std::uint64_t i = 0; i < 20; ++i) {
      const std::uint64_t place = i * step_bytes;
      if (down) {
        trace.copy(0x40000000, EndType::kHost, 0x900000000, EndType::kDevice, 2 * kMiB,
                   asynchronous);
      }
      trace.copy(0x900000000 + place, EndType::kDevice, 0x40000000, EndType::kHost, 2 * kMiB,
                 asynchronous);
    }
    return findings_of(trace, "ping_pong");
  };
  const Json found = report_of_trips(0, true);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("confidence") == "heuristic");
  CHECK(found[0].at("evidence").at("returned_count") == 20);
  CHECK(found[0].at("evidence").at("returned_bytes") == 40 * kMiB);
  CHECK(report_of_trips(0, false).empty());        // the buffer is copied in one direction only
  CHECK(report_of_trips(2 * kMiB, true).empty());  // copied back to other places
}

TEST_CASE("the same trace gives the same report, byte for byte", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder trace = program_trace();
  for (std::uint64_t round = 0; round < 300; ++round) {
    round_trip(trace);
    keep(trace, round);
    trace.copy(0x900000000, EndType::kDevice, 0x70000000, EndType::kHost, 4);
  }
  const auto path = trace.write(folder.path());
  const std::string first = analyze_json({path}, {}).dump();
  CHECK(analyze_json({path}, {}).dump() == first);
}

TEST_CASE("a fingerprint depends on no line, address or size", "[unit]") {
  std::set<std::string> fingerprints;
  for (const std::uint64_t shift : {0u, 0x40u}) {
    TraceBuilder trace;
    trace.module(kProgram + shift, kProgram + 0x10000, "/home/me/libmine.so");
    trace.allocate(0x100000000 + shift * kMiB, kMiB + shift, MemoryKind::kDevice,
                   {.caller = kProgram + 2 * shift + 0x50});
    fingerprints.insert(findings_of(trace, "leak").at(0).at("fingerprint"));
  }
  CHECK(fingerprints.size() == 1);
}

TEST_CASE("a threshold that is raised silences its rule", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder trace = program_trace();
  keep(trace, 1);
  const auto path = trace.write(folder.path());
  gpumemtrace::analyzer::Options options;
  CHECK(analyze_json({path}, options).at("findings").size() == 1);
  options.thresholds.set(0, 1e9);
  CHECK(analyze_json({path}, options).at("findings").empty());
}

}  // namespace gpumemtrace::rules_test
