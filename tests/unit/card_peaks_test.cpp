// SPDX-License-Identifier: Apache-2.0
// The peak of a card and of the job on it: the bytes that calls ask for, and the further bytes that
// samples show.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::card_peaks_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kTotal = 1024 * kMiB;
constexpr std::uint64_t kAddress = 0x7000'0000'0000;

TraceBuilder trace_on_card(std::uint32_t process_id = 100) {
  TraceBuilder trace(process_id);
  trace.device(0, 0x1234, kTotal);
  return trace;
}

void ask_card(TraceBuilder& trace, std::uint64_t in_use) {
  MemorySample sample;
  sample.source = SampleSource::kMemGetInfo;
  sample.free_bytes = kTotal - in_use * kMiB;
  sample.total_bytes = kTotal;
  sample.device = 0;
  trace.add(sample);
}

// Adds one round of samples: the memory in use on the card, then its processes. In MiB.
void ask(TraceBuilder& trace, std::uint64_t in_use, std::uint64_t own, std::uint64_t others) {
  ask_card(trace, in_use);
  trace.sample(own * kMiB, others * kMiB);
}

Json row_of(const Json& report, std::string_view of) {
  for (const Json& row : report.at("card_peaks")) {
    if (row.at("of") == of) return row;
  }
  FAIL("no such row");
  return {};
}

// Returns a part of the row in MiB; checks that the parts sum to the row's bytes.
std::uint64_t part_of(const Json& row, std::string_view what, const Json& process = nullptr) {
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
  for (const Json& part : row.at("parts")) {
    const auto part_bytes = part.at("bytes").get<std::uint64_t>();
    sum += part_bytes;
    if (part.at("what") == what && part.at("process") == process) bytes += part_bytes;
  }
  CHECK(sum == row.at("bytes"));
  return bytes / kMiB;
}

void check_range(const Json& row, std::uint64_t low, std::uint64_t high, bool exact) {
  CHECK(row.at("low_bytes") == low * kMiB);
  CHECK(row.at("high_bytes") == high * kMiB);
  CHECK(row.at("bytes") == high * kMiB);
  CHECK(row.at("exact") == exact);
}

}  // namespace

TEST_CASE("a card's peak at a sample is exact and has all parts", "[unit]") {
  TraceBuilder trace = trace_on_card();
  trace.allocate(kAddress, 100 * kMiB);
  ask(trace, 160, 150, 6);
  const Json report = report_of(trace);
  const Json card = row_of(report, "card");
  check_range(card, 160, 160, true);
  CHECK(part_of(card, "allocated", "p1") == 100);
  CHECK(part_of(card, "driver", "p1") == 50);
  CHECK(part_of(card, "other_processes") == 6);
  CHECK(part_of(card, "no_process") == 4);
  const Json job = row_of(report, "job");
  check_range(job, 150, 150, true);
  CHECK(part_of(job, "driver", "p1") == 50);
}

TEST_CASE("between two samples the driver's part lies between their values", "[unit]") {
  TraceBuilder trace = trace_on_card();
  ask(trace, 60, 50, 6);
  trace.allocate(kAddress, 100 * kMiB);
  trace.free(kAddress);
  ask(trace, 90, 70, 16);
  const Json report = report_of(trace);
  check_range(row_of(report, "card"), 160, 190, false);
  check_range(row_of(report, "job"), 150, 170, false);
  CHECK(part_of(row_of(report, "card"), "other_processes") == 16);
}

TEST_CASE("before the first sample the driver's part is at most what that shows", "[unit]") {
  TraceBuilder trace = trace_on_card();
  trace.allocate(kAddress, 100 * kMiB);
  trace.free(kAddress);
  ask(trace, 60, 50, 6);
  const Json report = report_of(trace);
  check_range(row_of(report, "card"), 100, 160, false);
  check_range(row_of(report, "job"), 100, 150, false);
}

TEST_CASE("after the last sample the driver's part stays", "[unit]") {
  TraceBuilder trace = trace_on_card();
  ask(trace, 60, 50, 6);
  trace.allocate(kAddress, 100 * kMiB);
  const Json report = report_of(trace);
  check_range(row_of(report, "card"), 160, 160, false);
  check_range(row_of(report, "job"), 150, 150, false);
}

TEST_CASE("two processes of the job are no others to each other", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder first = trace_on_card(10);
  first.allocate(kAddress, 100 * kMiB);
  first.wait_until(TraceBuilder::kFirstTick + 1000);
  ask(first, 206, 150, 50);
  first.wait_until(TraceBuilder::kFirstTick + 3000);
  ask(first, 206, 150, 50);
  first.write(folder.path());
  TraceBuilder second = trace_on_card(11);
  second.wait_until(TraceBuilder::kFirstTick + 2000);
  ask(second, 206, 44, 156);
  second.wait_until(TraceBuilder::kFirstTick + 4000);
  second.write(folder.path());
  const Json report = analyze_json({folder.path()}, {});
  const Json card = row_of(report, "card");
  check_range(card, 206, 206, true);
  const Json job = row_of(report, "job");
  check_range(job, 194, 194, true);
  CHECK(part_of(job, "driver", "p1") == 50);
  CHECK(part_of(job, "driver", "p2") == 44);
}

TEST_CASE("a card has one peak, whichever number each process has for it", "[unit]") {
  const TemporaryFolder folder;
  for (const std::int32_t ordinal : {0, 1}) {
    TraceBuilder trace(static_cast<std::uint32_t>(10 + ordinal));
    trace.context(2, 1);
    trace.device(1 - ordinal, 0x5678, kTotal);
    trace.device(ordinal, 0x1234, kTotal);
    trace.allocate(kAddress, 100 * kMiB, MemoryKind::kDevice,
                   {.context = static_cast<std::uint32_t>(1 + ordinal)});
    trace.write(folder.path());
  }
  const Json report = analyze_json({folder.path()}, {});
  CHECK(report.at("card_peaks").size() == 2);
  const Json job = row_of(report, "job");
  CHECK(job.at("bytes") == 200 * kMiB);
  CHECK(part_of(job, "allocated", "p2") == 100);
}

TEST_CASE("where another process makes the peak, blocks are those of that time", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder first = trace_on_card(10);
  first.allocate(kAddress, 64 * kMiB);
  first.block(kAddress, 40 * kMiB, 64 * kMiB);
  first.wait_until(TraceBuilder::kFirstTick + 3000);
  first.block(kAddress, -static_cast<std::int64_t>(40 * kMiB), 64 * kMiB);
  first.write(folder.path());
  TraceBuilder second = trace_on_card(11);
  second.wait_until(TraceBuilder::kFirstTick + 2000);
  second.allocate(kAddress, 100 * kMiB);
  second.free(kAddress);
  second.wait_until(TraceBuilder::kFirstTick + 4000);
  second.allocate(kAddress, 50 * kMiB);
  second.write(folder.path());
  const Json job = row_of(analyze_json({folder.path()}, {}), "job");
  CHECK(part_of(job, "framework_allocated", "p1") == 40);
  CHECK(part_of(job, "framework_cached", "p1") == 24);
  CHECK(part_of(job, "allocated", "p2") == 100);
}

TEST_CASE("memory that another process opened counts once", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder first = trace_on_card(10);
  first.allocate(kAddress, 100 * kMiB);
  first.write(folder.path());
  TraceBuilder second = trace_on_card(11);
  Import opened;
  opened.operation = ImportOperation::kIpcOpen;
  opened.address = kAddress;
  opened.bytes = 100 * kMiB;
  second.add_call(opened, {});
  second.write(folder.path());
  CHECK(row_of(analyze_json({folder.path()}, {}), "job").at("bytes") == 100 * kMiB);
}

TEST_CASE("where the driver does not tell processes apart, card and job have one number",
          "[unit]") {
  TraceBuilder trace = trace_on_card();
  trace.allocate(kAddress, 100 * kMiB);
  ask_card(trace, 160);
  const Json report = report_of(trace);
  for (const char* of : {"card", "job"}) {
    check_range(row_of(report, of), 160, 160, true);
    CHECK(part_of(row_of(report, of), "not_separable") == 60);
  }
}

TEST_CASE("where nobody asked the driver, the peak is what calls asked for or more", "[unit]") {
  TraceBuilder trace = trace_on_card();
  trace.allocate(kAddress, 100 * kMiB);
  const Json job = row_of(report_of(trace), "job");
  CHECK(job.at("bytes") == 100 * kMiB);
  CHECK(job.at("low_bytes") == 100 * kMiB);
  CHECK(job.at("high_bytes") == kTotal);
  CHECK(job.at("exact") == false);
}

TEST_CASE("what a pool turns out to hold back is in the pool, not in the driver's part", "[unit]") {
  TraceBuilder trace = trace_on_card();
  trace.allocate(kAddress, 100 * kMiB, MemoryKind::kStreamOrdered);
  ask_card(trace, 188);
  trace.sample(178 * kMiB, 0);
  PoolSample pool;
  pool.device = 0;
  pool.reserved_current = pool.reserved_high = 128 * kMiB;
  pool.used_current = pool.used_high = 100 * kMiB;
  trace.add(pool);
  trace.wait_until(trace.now() + 1000);
  ask(trace, 188, 178, 0);
  const Json report = report_of(trace);
  check_range(row_of(report, "card"), 188, 188, true);
  for (const char* of : {"card", "job"}) {
    CHECK(part_of(row_of(report, of), "pool_used", "p1") == 100);
    CHECK(part_of(row_of(report, of), "pool_cached", "p1") == 28);
    CHECK(part_of(row_of(report, of), "driver", "p1") == 50);
  }
}

TEST_CASE("small allocations share chunks of the driver, large ones take whole chunks", "[unit]") {
  TraceBuilder trace = trace_on_card();
  for (std::uint64_t i = 0; i < 4; ++i) trace.allocate(kAddress + i * kMiB / 4, kMiB / 4);
  trace.allocate(2 * kAddress, 5 * kMiB);
  ask(trace, 58, 58, 0);
  const Json job = row_of(report_of(trace), "job");
  CHECK(part_of(job, "allocated", "p1") == 6);
  CHECK(part_of(job, "rounding", "p1") == 2);
  CHECK(part_of(job, "driver", "p1") == 50);
}

TEST_CASE("processes of NVML's list are the job's by their trace or as children", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder worker = trace_on_card(11);
  worker.allocate(kAddress, 10 * kMiB);
  worker.wait_until(TraceBuilder::kFirstTick + 9000);
  worker.write(folder.path());
  TraceBuilder trace = trace_on_card(10);
  trace.wait_until(TraceBuilder::kFirstTick + 1000);
  trace.allocate(kAddress, 100 * kMiB);
  ask(trace, 400, 150, 230);
  const auto row = [&](std::uint32_t process_id, std::uint64_t mib, ProcessRelation relation) {
    ProcessSample sample;
    sample.process_id = process_id;
    sample.bytes = mib * kMiB;
    sample.relation = relation;
    sample.device = 0;
    trace.add(sample);
  };
  row(10, 150, ProcessRelation::kThis);
  row(11, 60, ProcessRelation::kDescendant);
  row(12, 70, ProcessRelation::kDescendant);
  row(13, 100, ProcessRelation::kOther);
  trace.wait_until(TraceBuilder::kFirstTick + 8000);
  trace.write(folder.path());
  const Json report = analyze_json({folder.path()}, {});
  const Json card = row_of(report, "card");
  check_range(card, 400, 400, true);
  CHECK(part_of(card, "other_processes") == 100);
  CHECK(part_of(card, "no_process") == 20);
  CHECK(part_of(card, "driver") == 70);
  const Json job = row_of(report, "job");
  check_range(job, 280, 280, true);
  CHECK(part_of(job, "driver", "p1") == 50);
  CHECK(part_of(job, "driver", "p2") == 50);
  CHECK(part_of(job, "driver") == 70);
}

TEST_CASE("a process that is over holds nothing when the next one begins", "[unit]") {
  const TemporaryFolder folder;
  for (const std::uint32_t number : {0u, 1u}) {
    TraceBuilder trace = trace_on_card(10 + number);
    trace.wait_until(TraceBuilder::kFirstTick + 2'000'000'000 * number);
    trace.allocate(kAddress, 100 * kMiB);
    ask(trace, 160, 150, 6);
    trace.write(folder.path());
  }
  const Json report = analyze_json({folder.path()}, {});
  check_range(row_of(report, "card"), 160, 160, true);
  check_range(row_of(report, "job"), 150, 150, true);
}

TEST_CASE("the job does not hold more than what is in use on the card", "[unit]") {
  TraceBuilder trace = trace_on_card();
  trace.allocate(kAddress, 100 * kMiB);
  ask(trace, 160, 150, 6);
  // NVML counts an allocation that has not returned yet.
  ask(trace, 260, 250, 6);
  trace.allocate(kAddress + 200 * kMiB, 100 * kMiB);
  ask(trace, 260, 250, 6);
  const Json report = report_of(trace);
  const Json card = row_of(report, "card");
  const Json job = row_of(report, "job");
  CHECK(job.at("bytes") <= card.at("bytes"));
  CHECK(job.at("high_bytes") <= card.at("high_bytes"));
  CHECK(part_of(job, "driver", "p1") <= 160);
}

namespace {

// Adds samples of NVML with its list of processes, in MiB. NVML counts 9 MiB of the card and all
// managed memory for no process.
void ask_with_list(TraceBuilder& trace, std::uint64_t in_use, std::uint64_t own,
                   std::uint64_t others, std::uint32_t processes = 1) {
  MemorySample sample;
  sample.source = SampleSource::kNvmlProcess;
  sample.reserved_bytes = kMiB;
  sample.total_bytes = kTotal;
  sample.free_bytes = kTotal - kMiB - in_use * kMiB;
  sample.process_bytes = own * kMiB;
  sample.other_bytes = others * kMiB;
  sample.device = 0;
  trace.add(sample);
  for (std::uint32_t i = 0; i < processes; ++i) {
    ProcessSample listed;
    listed.process_id = 100 + i;
    listed.bytes = (i == 0 ? own : others) * kMiB;
    listed.relation = i == 0 ? ProcessRelation::kThis : ProcessRelation::kOther;
    listed.device = 0;
    trace.add(listed);
  }
}

}  // namespace

TEST_CASE("managed memory on the card is what no process has beyond the sample before it",
          "[unit]") {
  TraceBuilder trace = trace_on_card();
  trace.context_call(ContextOperation::kRetainPrimary, 1);
  ask_with_list(trace, 59, 50, 0);
  trace.allocate(kAddress, 64 * kMiB, MemoryKind::kManaged);
  trace.allocate(2 * kAddress, 100 * kMiB);
  ask_with_list(trace, 59 + 64 + 100, 150, 0);
  const Json report = report_of(trace);
  const Json card = row_of(report, "card");
  check_range(card, 223, 223, true);
  CHECK(part_of(card, "managed", "p1") == 64);
  CHECK(part_of(card, "no_process") == 9);
  const Json job = row_of(report, "job");
  check_range(job, 214, 214, true);
  CHECK(part_of(job, "managed", "p1") == 64);
  CHECK(part_of(job, "allocated", "p1") == 100);
  CHECK(part_of(job, "driver", "p1") == 50);
}

TEST_CASE("managed memory is not told apart from a new context's or another process's bytes",
          "[unit]") {
  for (const bool is_context : {true, false}) {
    TraceBuilder trace = trace_on_card();
    ask_with_list(trace, 59, 50, 0);
    trace.allocate(kAddress, 64 * kMiB, MemoryKind::kManaged);
    if (is_context) {
      trace.context(2, 0, false);
      trace.context_call(ContextOperation::kCreate, 2);
    }
    ask_with_list(trace, 59 + 70, 50, 0, is_context ? 1 : 2);
    const Json report = report_of(trace);
    CHECK(part_of(row_of(report, "card"), "managed", "p1") == 0);
    CHECK(part_of(row_of(report, "card"), "not_separable") == 79);
    check_range(row_of(report, "job"), 50, 129, false);
  }
}

TEST_CASE("managed memory leaves open what the job holds", "[unit]") {
  TraceBuilder trace = trace_on_card();
  trace.allocate(kAddress, 64 * kMiB, MemoryKind::kManaged);
  ask(trace, 130, 60, 0);  // NVML counts managed memory for no process
  const Json job = row_of(report_of(trace), "job");
  check_range(job, 60, 130, false);
  CHECK(part_of(job, "not_separable") == 70);
}

}  // namespace gpumemtrace::card_peaks_test
