// SPDX-License-Identifier: Apache-2.0
// If several changes would mend a fault, its fix says which one applies and how that is known.
#include <algorithm>

#include "analyzer/rules/rules.hpp"
#include "tests/support/finding_query.hpp"
#include "tests/support/stack_records.hpp"
#include "tests/support/training_trace.hpp"

namespace gpumemtrace::rules_choices_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kAddress = 0x900000000;
constexpr std::uint64_t kHostAddress = 0x40000000;
constexpr auto kBlock = static_cast<std::int64_t>(kMiB);

std::uint64_t address_of(std::uint64_t number) { return kAddress + number * 64 * kMiB; }

// Three allocations at one line: number `lost` is never freed; the two others are freed at `lines`.
Json leak_of(std::uint64_t lost, std::initializer_list<std::uint64_t> lines) {
  TraceBuilder trace = program_trace();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    trace.allocate(address_of(i), kMiB, MemoryKind::kDevice, call_at(0x10));
  }
  std::uint64_t next = 1;
  for (const std::uint64_t line : lines) {
    if (next == lost) ++next;
    trace.free(address_of(next++), MemoryKind::kDevice, call_at(line));
  }
  return finding_of(trace, "leak");
}

Pool pool_call(PoolOperation operation, std::uint64_t handle) {
  Pool pool;
  pool.operation = operation;
  pool.device = 0;
  pool.pool = handle;
  return pool;
}

// Twenty round trips of 2 MiB between device and host; `between` is called amid each trip.
template <class Between>
Json round_trips(std::uint64_t device_address, Between&& between) {
  TraceBuilder trace = program_trace();
  trace.allocate(kAddress, 4 * kMiB, MemoryKind::kDevice, call_at(0x10));
  trace.allocate(kHostAddress, 2 * kMiB, MemoryKind::kPinned);
  for (int i = 0; i < 20; ++i) {
    trace.copy(kHostAddress, EndType::kHost, device_address, EndType::kDevice, 2 * kMiB,
               call_at(0x20, 0, kFlagAsynchronous));
    between(trace);
    trace.copy(device_address, EndType::kDevice, kHostAddress, EndType::kHost, 2 * kMiB,
               call_at(0x30, 0, kFlagAsynchronous));
  }
  return finding_of(trace, "ping_pong");
}

// A loop that allocates blocks of 16 KiB and 1 MiB in each round. It keeps all of 16 KiB, and frees
// those of 1 MiB except in every `kept_round`th round; 0 = it frees all of them.
Json growth_of_tensors(std::uint64_t kept_round) {
  TraceBuilder trace = program_trace();
  add_code(trace, 1, "loss_of", "/job/train.py", 10);
  add_code(trace, 2, "forward", "/job/train.py", 20);
  add_stack(trace, 1, {{1}, {}});
  add_stack(trace, 2, {{2}, {}});
  trace.allocate(kAddress, 8192 * kMiB);
  for (std::uint64_t round = 0; round < 400; ++round) {
    const std::uint64_t large = kAddress + (round + 1) * 2 * kMiB;
    block_at(trace, large, kBlock, 2);
    block_at(trace, large + kMiB, 16 * 1024, 1);
    if (kept_round == 0 || round % kept_round != 0) block_at(trace, large, -kBlock, 0);
  }
  for (const Json& finding : findings_of(trace, "growth")) {
    if (finding.at("site").at("function") == "loss_of") return finding;
  }
  return nullptr;
}

// In each round, two lines of a model and the line that calls it keep a block each, and two other
// blocks are freed. With `in_layers` the model's lines run inside a module's call.
TraceBuilder kept_graph(bool in_layers) {
  TraceBuilder trace = program_trace();
  add_code(trace, 1, "<module>", "/job/train.py", 38);
  add_code(trace, 2, "Module._call_impl", "/lib/site-packages/torch/nn/modules/module.py", 9);
  add_code(trace, 3, "Block.forward", "/job/model.py", 19);
  add_code(trace, 4, "Block.forward", "/job/model.py", 20);
  add_code(trace, 5, "load", "/job/data.py", 7);
  const auto called = [&](std::uint32_t code) {
    return in_layers ? StackFrames{{code, 2, 1}, {}} : StackFrames{{code, 1}, {}};
  };
  add_stack(trace, 1, called(3));
  add_stack(trace, 2, called(4));
  add_stack(trace, 3, {{1}, {}});
  add_stack(trace, 4, {{5, 1}, {}});
  trace.allocate(kAddress, 8192 * kMiB);
  for (std::uint64_t round = 0; round < 400; ++round) {
    const std::uint64_t at = kAddress + round * 8 * kMiB;
    block_at(trace, at, 16 * 1024, 1);
    block_at(trace, at + kMiB, 64 * 1024, 2);
    block_at(trace, at + 2 * kMiB, 32 * 1024, 3);
    for (const std::uint64_t passing : {at + 3 * kMiB, at + 4 * kMiB}) {
      block_at(trace, passing, kBlock, 4);
      block_at(trace, passing, -kBlock, 0);
    }
  }
  return trace;
}

// A cache of four entries; each round replaces one of them. Entries grow by `more` bytes a round.
Json cache_of_four(std::int64_t more) {
  TraceBuilder trace = program_trace();
  add_code(trace, 1, "store", "/job/server.py", 10);
  add_stack(trace, 1, {{1}, {}});
  trace.allocate(kAddress, 8192 * kMiB);
  std::int64_t bytes[4] = {};
  for (std::uint64_t round = 0; round < 400; ++round) {
    const std::uint64_t at = kAddress + round % 4 * 64 * kMiB;
    std::int64_t& entry = bytes[round % 4];
    if (entry != 0) block_at(trace, at, -entry, 0);
    entry = 16 * 1024 + static_cast<std::int64_t>(round) * more;
    block_at(trace, at, entry, 1);
  }
  return findings_of(trace, "growth");
}

// Each step's batch replaces the batch before and is larger at times; three of the last steps leave
// a block more.
Json growth_of_doubling_batches() {
  TraceBuilder trace = program_trace();
  add_code(trace, 1, "step", "/job/train.py", 8);
  add_stack(trace, 1, {{1}, {}});
  trace.allocate(kAddress, 8192 * kMiB);
  std::int64_t batch = 0;
  for (std::uint64_t step = 0; step < 400; ++step) {
    const std::uint64_t at = kAddress + step % 2 * 1024 * kMiB;
    const std::int64_t larger = static_cast<std::int64_t>((1 + step / 20) * 64 * 1024);
    block_at(trace, at, larger, 1);
    if (batch != 0) block_at(trace, kAddress + (step + 1) % 2 * 1024 * kMiB, -batch, 0);
    batch = larger;
    if (step >= 370 && step < 373)
      block_at(trace, kAddress + (4 + step % 4) * 1024 * kMiB, 64 * 1024, 1);
  }
  return findings_of(trace, "growth");
}

// PyTorch fails to allocate `requested_bytes` on a device of 100 MiB beside one block.
Json failure_of(std::uint64_t requested_bytes, std::int64_t held_bytes) {
  TraceBuilder trace = program_trace();
  trace.device(0, 0x1234, 100 * kMiB);
  add_code(trace, 1, "load", "/job/train.py", 10);
  add_stack(trace, 1, {{1}, {}});
  trace.allocate(kAddress, static_cast<std::uint64_t>(held_bytes));
  block_at(trace, kAddress, held_bytes, 1);
  trace.allocate(0, requested_bytes, MemoryKind::kDevice, {.result = 2});
  trace.framework_oom(requested_bytes);
  return finding_of(trace, "out_of_memory");
}

// Two ranks: the second allocates 200 MiB more at one line. With `first_too` the first one
// allocates there, too.
Json imbalance_of(bool first_too) {
  const TemporaryFolder folder;
  for (const std::uint32_t rank : {0u, 1u}) {
    TraceBuilder trace = program_trace(10 + rank);
    trace.text(TextKey::kRank, std::to_string(rank));
    trace.device(0, 0x1000 + rank, 1024 * kMiB);
    trace.allocate(kAddress, 100 * kMiB, MemoryKind::kDevice, call_at(0x10));
    if (rank == 1 || first_too) {
      const std::uint64_t bytes = (rank == 1 ? 200 : 1) * kMiB;
      trace.allocate(address_of(9), bytes, MemoryKind::kDevice, call_at(0x20));
      trace.free(address_of(9), MemoryKind::kDevice, call_at(0x30));
    }
    trace.free(kAddress);
    trace.write(folder.path());
  }
  const Json found = analyze_json({folder.path()}, {}).at("findings");
  REQUIRE(found.size() == 1);
  return found[0];
}

}  // namespace

TEST_CASE("a leak beside others that were freed names their free and which one it is", "[unit]") {
  const Json last = leak_of(3, {0x20, 0x20});
  CHECK(offset_of(last.at("evidence").at("freed_at")) == 0x20);
  CHECK(last.at("evidence").at("freed_count") == 2);
  CHECK(has(last, "2 of 3 were freed, at libmine.so"));
  CHECK(has(last, "the last one, made at "));

  const Json first = leak_of(1, {0x20, 0x30});
  CHECK(has(first, "2 of 3 were freed, some at libmine.so"));
  CHECK(has(first, "; one, made at "));

  const Json two = leak_of(3, {0x20});
  CHECK(has(two, "1 of 3 was freed, at libmine.so"));
  CHECK(has(two, "; 2 were not. "));

  const Json all = leak_of(3, {});
  CHECK_FALSE(has(all, "were freed"));
  CHECK(has(all, "Call cuMemFree for what libmine.so"));
}

TEST_CASE("a leak tells the step in which it was allocated", "[unit]") {
  TraceBuilder trace = program_trace();
  for (std::uint64_t step = 0; step < 5; ++step) {
    trace.step(step);
    trace.allocate(address_of(step), kMiB, MemoryKind::kDevice, call_at(0x10));
    if (step != 3) trace.free(address_of(step), MemoryKind::kDevice, call_at(0x20));
  }
  const Json found = finding_of(trace, "leak");
  CHECK(found.at("evidence").at("first_step") == 3);
  CHECK(has(found, " in step 3, was not"));
}

TEST_CASE("where a checkpoint compacted frees, neither the last one nor every free is told",
          "[unit]") {
  TraceBuilder trace = program_trace();
  trace.allocate(address_of(1), kMiB, MemoryKind::kDevice, call_at(0x10));
  trace.allocate(address_of(2), kMiB, MemoryKind::kDevice, call_at(0x10));
  Totals totals;
  totals.kind = static_cast<std::uint32_t>(RecordKind::kAllocation);
  totals.memory = MemoryKind::kDevice;
  totals.record.api = 1;
  totals.caller = kProgram + 0x10;
  totals.context = ContextId{1};
  totals.count = totals.freed = 5;
  totals.bytes = 5 * kMiB;
  trace.add(totals);
  Checkpoint checkpoint;
  checkpoint.records = 10;
  trace.add(checkpoint);
  trace.free(address_of(1), MemoryKind::kDevice, call_at(0x20));
  const Json found = finding_of(trace, "leak");
  CHECK(has(found, "6 of 7 were freed, some at libmine.so"));
  CHECK(has(found, "; one, made at "));
}

TEST_CASE("a handle beside others that were released names their release", "[unit]") {
  TraceBuilder trace = program_trace();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    trace.add_call(pool_call(PoolOperation::kCreate, i), call_at(0x10));
  }
  trace.add_call(pool_call(PoolOperation::kDestroy, 3), call_at(0x20));
  trace.add_call(pool_call(PoolOperation::kDestroy, 1), call_at(0x20));
  const Json found = finding_of(trace, "unreleased_handle");
  CHECK(offset_of(found.at("evidence").at("closed_at")) == 0x20);
  CHECK(has(found, "2 of 3 were released, at libmine.so"));
  CHECK(has(found, "; one, made at "));
  CHECK(has(found, "Find the path that skips cuMemPoolDestroy."));
}

TEST_CASE("imported memory that was closed elsewhere names the call", "[unit]") {
  TraceBuilder trace = program_trace();
  Import import;
  import.operation = ImportOperation::kIpcOpen;
  import.bytes = kMiB;
  for (std::uint64_t i = 1; i <= 2; ++i) {
    import.address = address_of(i);
    trace.add_call(import, call_at(0x10));
  }
  import.operation = ImportOperation::kIpcClose;
  import.address = address_of(1);
  trace.add_call(import, call_at(0x20));
  const Json found = finding_of(trace, "unreleased_handle");
  CHECK(offset_of(found.at("evidence").at("closed_at")) == 0x20);
  CHECK(has(found, "the last one, made at "));
}

TEST_CASE("growth that ends in frees names where they stand, unless there were others", "[unit]") {
  const auto found_with = [](bool frees_between) {
    TraceBuilder trace = program_trace();
    const auto place = [](std::uint64_t round) { return kAddress + round * kMiB; };
    for (std::uint64_t round = 0; round < 500; ++round) {
      trace.allocate(kHostAddress, kMiB, MemoryKind::kStreamOrdered, call_at(0x40));
      trace.free(kHostAddress, MemoryKind::kStreamOrdered, call_at(0x50));
      if (round % 10 != 9) continue;
      trace.allocate(place(round), 64 * 1024, MemoryKind::kDevice, call_at(0x10));
      if (frees_between && round % 50 == 49) {
        trace.free(place(round), MemoryKind::kDevice, call_at(0x30));
      }
    }
    for (std::uint64_t round = 9; round < 500; round += 10) {
      if (frees_between && round % 50 == 49) continue;
      trace.free(place(round), MemoryKind::kDevice, call_at(0x20));
    }
    return finding_of(trace, "growth");
  };
  const Json at_the_end = found_with(false);
  CHECK(
      has(at_the_end,
          "allocated there and none was freed. After that, 50 were freed, older ones included, at "
          "libmine.so"));
  CHECK(has(at_the_end, "Do sooner what frees them at libmine.so"));
  CHECK(offset_of(at_the_end.at("evidence").at("freed_at")) == 0x20);

  const Json between = found_with(true);
  CHECK_FALSE(has(between, "none was freed"));
  CHECK(has(between, ". After that, "));
  CHECK(has(between, "Free them sooner, or bound"));
}

TEST_CASE("what the end of a context took was not freed later", "[unit]") {
  TraceBuilder trace = program_trace();
  for (std::uint64_t round = 0; round < 500; ++round) {
    trace.allocate(kHostAddress, kMiB, MemoryKind::kDevice, call_at(0x40));
    trace.free(kHostAddress);
    if (round % 10 != 9) continue;
    trace.allocate(kAddress + round * kMiB, 64 * 1024, MemoryKind::kDevice, call_at(0x10));
  }
  trace.context_call(ContextOperation::kResetPrimary, 1, 0, call_at(0x50));
  const Json found = finding_of(trace, "growth");
  CHECK(found.at("evidence").at("frees_after") == 0);
  CHECK(has(found, "and none was freed. "));
  CHECK(has(found, "Free them where they are no longer needed"));
}

TEST_CASE("tensors that grow alone are told apart from a graph that stays", "[unit]") {
  const Json alone = growth_of_tensors(0);
  CHECK(alone.at("evidence").at("other_places") == 1);
  // The 400 rounds are not marked as steps, so the finding does not know that one block stays per
  // step.
  CHECK(has(alone,
            "No graph of autograd is kept (unless this line runs the whole model): 1 other place "
            "allocated meanwhile and did not grow."));
  CHECK(has(alone, "Store .cpu() of them, or .item() of one value"));

  const Json graph = growth_of_tensors(3);
  CHECK(graph.at("evidence").at("other_places_growing") == 1);
  CHECK(has(graph, "a whole graph of autograd stays"));
}

TEST_CASE("lines that grow because a graph is kept are one finding, at the line they come from",
          "[unit]") {
  TraceBuilder trace = kept_graph(true);
  const Json found = finding_of(trace, "growth");
  CHECK(found.at("site").at("file") == "/job/train.py");
  CHECK(found.at("site").at("line") == 38);
  CHECK(found.at("evidence").at("places") == 3);
  const auto bytes = found.at("bytes").get<std::uint64_t>();
  CHECK(bytes % (112 * 1024) == 0);  // the three places keep 112 KiB in each round
  CHECK(has(found, "A graph of autograd from train.py:38 (top level) is kept"));
  CHECK(has(found, "model.py:20 (Block.forward), train.py:38 (top level) and model.py:19"));
  CHECK(has(found, "It would release"));
}

TEST_CASE("lines that grow without a model are findings of their own", "[unit]") {
  TraceBuilder trace = kept_graph(false);
  CHECK(findings_of(trace, "growth").size() == 3);
}

TEST_CASE("a cache whose entries get larger is told apart from one that gets longer", "[unit]") {
  CHECK(cache_of_four(0).empty());
  const Json found = cache_of_four(1024);
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "info");
  CHECK(has(found[0], "The size of what server.py:10 (store) keeps grew"));
}

TEST_CASE("batches that double until memory runs out are no leak", "[unit]") {
  const Json found = growth_of_doubling_batches();
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("severity") == "info");
  CHECK(has(found[0], "The size of what train.py:8 (step) keeps grew"));
  CHECK(has(found[0], "hardly more blocks of train.py:8 (step) than before were live"));
}

TEST_CASE("round trips to memory that stayed allocated need no way back", "[unit]") {
  const Json found = round_trips(kAddress, [](TraceBuilder&) {});
  CHECK(found.at("evidence").at("returned_to_same_memory") == 20);
  CHECK(has(found, "Remove the copy back at libmine.so"));
  CHECK(has(found, "Remove the copy down at libmine.so"));
  // 20 trips with 10 ns between their two calls, and 5 ns in each call.
  CHECK(has(found, "(for 10 ns on average)"));
  CHECK(has(found, "The calls back took 100 ns, those of both ways 200 ns (exact)"));
}

TEST_CASE("round trips that gave the memory free meanwhile are on purpose", "[unit]") {
  const Json found = round_trips(kAddress, [](TraceBuilder& trace) {
    trace.free(kAddress);
    trace.allocate(kAddress, 4 * kMiB);
  });
  CHECK(found.at("evidence").at("returned_to_new_memory") == 20);
  CHECK(has(found, "parked on purpose"));
}

TEST_CASE("round trips of a part of a buffer leave both possibilities open", "[unit]") {
  const Json found = round_trips(kAddress + kMiB, [](TraceBuilder&) {});
  CHECK(has(found, "Where memory is offloaded on purpose, suppress this"));
}

TEST_CASE("a request for more than the device has is to ask for less", "[unit]") {
  const Json found = failure_of(150 * kMiB, 20 * kBlock);
  CHECK(has(found, "Ask for less"));
  CHECK(has(found, "at most 80.0 MiB (arithmetic): the device has 100.0 MiB in all"));
}

TEST_CASE("a request for more than all that was held is what to make smaller first", "[unit]") {
  const Json found = failure_of(90 * kMiB, 20 * kBlock);
  CHECK(has(found, "it is larger than all live blocks of PyTorch together, 20.0 MiB."));
  CHECK(has(found,
            "free 10.0 MiB before it (arithmetic): most is held by train.py:10 (load), "
            "20.0 MiB in 1 allocation."));
}

TEST_CASE("a request for less than what was held names the holder", "[unit]") {
  const Json found = failure_of(40 * kMiB, 80 * kBlock);
  CHECK(has(found, "Free or avoid at least 20.0 MiB"));
  CHECK(has(found, "(train.py:10 (load), 80.0 MiB in 1 allocation)"));
}

TEST_CASE("memory that grew throughout the run is what to stop where memory ran out", "[unit]") {
  TraceBuilder trace = program_trace();
  trace.device(0, 0x1234, 100 * kMiB);
  for (std::uint64_t round = 0; round < 800; ++round) {
    trace.allocate(kHostAddress, kMiB, MemoryKind::kDevice, call_at(0x40));
    trace.free(kHostAddress);
    if (round % 10 != 9) continue;
    trace.allocate(kAddress + round * kMiB, kMiB, MemoryKind::kDevice, call_at(0x10));
  }
  trace.allocate(0, 30 * kMiB, MemoryKind::kDevice, call_at(0x20, 2));
  CHECK(has(finding_of(trace, "out_of_memory"), "whose memory grew throughout the run"));
}

TEST_CASE("what a training builds up in its first step is no growth", "[unit]") {
  const auto growth_of = [](int backward_passes) {
    TrainingTrace trace;
    std::vector<std::uint64_t> kept;
    for (int layer = 0; layer < 200; ++layer) {
      kept.push_back(trace.take(kMiB, trace.forward));
      trace.give_back(trace.take(kMiB, trace.forward), kMiB, 0);
      if (layer < backward_passes) trace.take(kMiB, 0, TrainingTrace::kEngine);
    }
    return findings_of(trace.builder(), "growth").size();
  };
  CHECK(growth_of(1) == 0);
  CHECK(growth_of(0) == 1);
  CHECK(growth_of(50) >= 1);
}

TEST_CASE("parameters that fill the device do not shrink with the batch", "[unit]") {
  namespace rows = gpumemtrace::analyzer::rows;
  using gpumemtrace::analyzer::Category;
  rows::Report report;
  rows::Oom& failure = report.oom.emplace_back();
  failure.level = gpumemtrace::analyzer::Level::kFramework;
  failure.outcome = gpumemtrace::analyzer::OomOutcome::kRaised;
  failure.verdict = rows::OomVerdict::kExhausted;
  failure.requested_bytes = kMiB;
  rows::Holder& holder = failure.holders.emplace_back();
  holder.bytes = 64 * kMiB;
  holder.origin.site.emplace().function = "load";
  const auto fix_with = [&](Category category) {
    holder.category = category;
    gpumemtrace::analyzer::Findings found;
    gpumemtrace::analyzer::find_out_of_memory({report, {}, {}}, found);
    REQUIRE(found.size() == 1);
    return found[0].fix;
  };
  CHECK(fix_with(Category::kParameter).find("which a smaller batch does not change") !=
        std::string::npos);
  CHECK(fix_with(Category::kActivation).find(": a smaller batch, or activation checkpointing.") !=
        std::string::npos);
}

TEST_CASE("what one rank alone allocates is told apart from what all share unevenly", "[unit]") {
  const Json alone = imbalance_of(false);
  CHECK(alone.at("evidence").at("allocations_of_others_there") == 0);
  CHECK(offset_of(alone.at("evidence").at("held_at")) == 0x20);
  CHECK(offset_of(alone.at("evidence").at("freed_at")) == 0x30);
  CHECK(has(alone, "rank 1 alone allocates there (1 time, freed at libmine.so"));
  CHECK(has(alone, "The other rank (0) has a median of 100.0 MiB."));
  CHECK(alone.at("site").is_null());

  const Json shared = imbalance_of(true);
  CHECK(shared.at("evidence").at("allocations_of_others_there") == 1);
  CHECK(has(shared, "Divide evenly what libmine.so"));
}

TEST_CASE("what a rule counted behind a checkpoint is inferred", "[unit]") {
  for (const bool has_checkpoint : {false, true}) {
    TraceBuilder trace = program_trace();
    if (has_checkpoint) {
      Checkpoint checkpoint;
      checkpoint.records = 10;
      checkpoint.record.time = trace.now() + 5000;
      trace.add(checkpoint);
      trace.wait_until(checkpoint.record.time);
    }
    for (int i = 0; i < 300; ++i) {
      trace.allocate(kHostAddress, kMiB, MemoryKind::kPinned, call_at(0x40));
      trace.free(kHostAddress, MemoryKind::kPinned);
    }
    CHECK(finding_of(trace, "pinned_churn").at("confidence") ==
          (has_checkpoint ? "inferred" : "exact"));
  }
}

TEST_CASE("rules that need single events say from when on there are some", "[unit]") {
  TraceBuilder trace = program_trace();
  CHECK(report_of(trace).at("coverage").at("partial_rules").empty());
  Checkpoint checkpoint;
  checkpoint.records = 10;
  checkpoint.record.time = trace.now() + 5000;
  trace.add(checkpoint);
  trace.wait_until(checkpoint.record.time);
  const Json rows = report_of(trace).at("coverage").at("partial_rules");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].at("from_ns") == checkpoint.record.time - TraceBuilder::kFirstTick);
  const Json& rules = rows[0].at("rules");
  CHECK(std::find(rules.begin(), rules.end(), "reference_cycles") != rules.end());
  CHECK(std::find(rules.begin(), rules.end(), "repeated_copies") != rules.end());
  CHECK(std::find(rules.begin(), rules.end(), "leak") == rules.end());
}

}  // namespace gpumemtrace::rules_choices_test
