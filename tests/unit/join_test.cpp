// SPDX-License-Identifier: Apache-2.0
// Partial reports, joined to the report of the whole job.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/json/report_json.hpp"
#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/training_trace.hpp"

namespace gpumemtrace::analyzer::join_test {
namespace {

namespace fs = std::filesystem;
using tests::kMiB;
using Paths = std::vector<fs::path>;

constexpr std::uint64_t kCard = std::uint64_t{8} << 30;

constexpr std::uint64_t kShared = 0x900000000;

void share(tests::TraceBuilder& trace, trace::ImportOperation operation, std::uint64_t address,
           std::uint64_t handle) {
  trace::Import call;
  call.operation = operation;
  call.address = address;
  call.handle = handle;
  call.bytes = operation == trace::ImportOperation::kIpcOpen ? kMiB : 0;
  trace.add_call(call, {});
}

// Each rank lets the others of its node open its memory, and opens that of two others. All nodes
// have the same handles.
void begin_sharing(tests::TraceBuilder& trace, std::uint64_t rank) {
  trace.allocate(kShared, kMiB);
  share(trace, trace::ImportOperation::kIpcExport, kShared, 5000 + rank % 4);
  trace.wait_until(trace.now() + 1'000'000);
  for (const std::uint64_t other : {rank + 1, rank + 3}) {
    share(trace, trace::ImportOperation::kIpcOpen, kShared + other * 16 * kMiB, 5000 + other % 4);
  }
}

// Some ranks close memory that they opened, and some free memory that others have open.
void end_sharing(tests::TraceBuilder& trace, std::uint64_t rank) {
  if (rank % 3 != 0) {
    share(trace, trace::ImportOperation::kIpcClose, kShared + (rank + 1) * 16 * kMiB, 0);
  }
  if (rank % 2 == 0) trace.free(kShared);
}

// Writes a rank's trace. Each node has four ranks, two of which share a card, and every third rank
// has a context with memory on the other card, too. Ranks train, grow, copy, and keep some memory;
// the third one runs out of memory.
fs::path write_rank(const fs::path& folder, std::uint64_t rank) {
  tests::TrainingTrace training;
  tests::TraceBuilder& trace = training.builder();
  const std::string node = std::to_string(rank / 4);
  trace.text(trace::TextKey::kRank, std::to_string(rank));
  trace.text(trace::TextKey::kHost, "node" + node);
  trace.text(trace::TextKey::kBootId, "boot" + node);
  trace.device(0, 7000 + rank / 2, kCard);
  if (rank % 3 == 1) {
    trace.device(1, 7000 + (rank / 2 ^ 1), kCard);
    trace.context(2, 1);
    trace.allocate(kShared + 8 * kMiB, (1 + rank) * kMiB, trace::MemoryKind::kDevice,
                   {.context = 2});
    trace.sample((300 + rank) * kMiB, 100 * kMiB, 1);
  }
  begin_sharing(trace, rank);
  for (std::uint64_t step = 0; step < 60; ++step) {
    trace.wait_until(trace.now() + 1'000'000 * (1 + rank % 3));
    trace.step(step);
    const std::uint64_t bytes = (1 + (step * rank) % 5) * kMiB;
    const std::uint64_t block = training.take(bytes, training.forward);
    if (step % 2 == 0) (void)training.take(kMiB / 4, training.loss);
    training.upload(block, bytes, training.load);
    trace.sample((100 + rank + step) * kMiB, (100 + step % 7) * kMiB);
    training.give_back(block, bytes, training.backward);
  }
  end_sharing(trace, rank);
  if (rank == 2) trace.framework_oom(kCard);
  const fs::path written =
      trace.write(folder, rank % 5 == 4 ? tests::Ending::kKilled : tests::Ending::kExit);
  const fs::path path = folder / ("rank" + std::to_string(100 + rank) + ".gmt");
  fs::rename(written, path);
  if (fs::exists(written.string() + ".ring")) {
    fs::rename(written.string() + ".ring", path.string() + ".ring");
  }
  return path;
}

Paths write_ranks(const fs::path& folder, std::uint64_t count) {
  Paths traces;
  for (std::uint64_t rank = 0; rank < count; ++rank) traces.push_back(write_rank(folder, rank));
  return traces;
}

// The partial report of the traces as it is read back from its file.
rows::Partial saved(const Paths& traces, const Options& options = {}) {
  rows::Partial partial = partial_of_text(to_text(analyze_partially(traces, options)));
  partial.source = traces.front().filename().string();
  return partial;
}

std::string refusal_of(std::vector<rows::Partial> partials) {
  return tests::error_of<InputError>([&] { return merge(std::move(partials), false); });
}

// Splits the traces into parts: each trace is in one part, some in two; most parts have several
// nodes.
std::vector<Paths> split(Paths traces, std::size_t parts, std::mt19937_64& random) {
  std::ranges::shuffle(traces, random);
  std::vector<Paths> split(parts);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    split[i < parts ? i : random() % parts].push_back(traces[i]);
    Paths& other = split[random() % parts];
    if (random() % 4 == 0 && !std::ranges::count(other, traces[i])) other.push_back(traces[i]);
  }
  std::ranges::shuffle(split, random);
  return split;
}

// Changes one value somewhere in the text: a number, a word, or a list that loses its end.
std::string damaged(tests::Json json, std::mt19937_64& random) {
  tests::Json* at = &json;
  while (at->is_structured() && !at->empty()) {
    auto next = at->begin();
    std::advance(next, static_cast<std::ptrdiff_t>(random() % at->size()));
    if (at->is_array() && random() % 8 == 0) {
      at->erase(next, at->end());
      return json.dump();
    }
    at = &*next;
  }
  const std::uint64_t numbers[] = {0, 1, random() % 100, ~std::uint64_t{0}, std::uint64_t{1} << 63};
  if (at->is_number_integer()) *at = numbers[random() % std::size(numbers)];
  if (at->is_string()) *at = random() % 2 == 0 ? "" : "p1";
  if (at->is_boolean()) *at = !at->get<bool>();
  return json.dump();
}

}  // namespace

TEST_CASE("partial reports make the report of the whole job, in any parts and order", "[unit]") {
  const tests::TemporaryFolder folder;
  std::mt19937_64 random(20261128);
  // With 1 process there are no rows that compare processes; with more than 16, timelines are
  // shorter.
  const std::uint64_t ranks = GENERATE(1u, 5u, 18u);
  const std::size_t parts = std::min<std::size_t>(ranks, 4);
  const Paths traces = write_ranks(folder.path(), ranks);
  const rows::Report report = analyze(traces, {});
  const std::string whole = to_text(report);
  CHECK(std::ranges::any_of(report.shared_memory, [](const rows::SharedMemory& row) {
          return row.freed_while_open_bytes != 0;
        }) == (ranks > 1));
  std::vector<rows::Partial> partials;
  for (const Paths& part : split(traces, parts, random)) partials.push_back(saved(part));
  CHECK(to_text(merge(std::move(partials), false)) == whole);
}

TEST_CASE("of two partial reports of a trace the first one counts, whatever their paths",
          "[unit]") {
  const tests::TemporaryFolder folder;
  const rows::Partial newer = saved(write_ranks(folder.path(), 1));
  rows::Partial older = newer;
  older.processes.at(0).path = "/a/rank100.gmt";
  older.report.processes.at(0).pid = 4711;
  CHECK(merge({newer, older}, false).processes.at(0).pid == newer.report.processes.at(0).pid);
  CHECK(merge({older, newer}, false).processes.at(0).pid == 4711);
}

TEST_CASE("a damaged partial report is refused or merged", "[unit]") {
  const tests::TemporaryFolder folder;
  const Paths traces = write_ranks(folder.path(), 2);
  const rows::Partial other = saved({traces[0]});
  const tests::Json whole = tests::Json::parse(to_text(analyze_partially({traces[1]}, {})));
  std::mt19937_64 random(20261129);
  std::size_t merged = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string text = damaged(whole, random);
    INFO(i);
    try {
      (void)to_text(merge({other, partial_of_text(text)}, false));
      ++merged;
    } catch (const std::exception& error) {
      CHECK(std::string(error.what()).size() > 10);
    }
  }
  CHECK(merged > 10);
}

TEST_CASE("names are replaced when partial reports are merged", "[unit]") {
  const tests::TemporaryFolder folder;
  const Paths traces = write_ranks(folder.path(), 2);
  Options options;
  options.redact = true;
  const std::string whole = to_text(analyze(traces, options));
  CHECK(to_text(merge({saved({traces[1]}), saved({traces[0]})}, true)) == whole);
}

TEST_CASE("partial reports that cannot be merged are named", "[unit]") {
  const tests::TemporaryFolder folder;
  const Paths traces = write_ranks(folder.path(), 2);
  SECTION("of another version") {
    rows::Partial older = saved({traces[1]});
    older.tool.version = "0.0.9";
    CHECK(refusal_of({saved({traces[0]}), older})
              .starts_with("rank101.gmt was made by gpumemtrace 0.0.9"));
  }
  SECTION("of other options") {
    Options options;
    options.thresholds.set(0, 12345);
    CHECK(refusal_of({saved({traces[0]}), saved({traces[1]}, options)})
              .starts_with("rank101.gmt was made with other options than rank100.gmt"));
  }
}

}  // namespace gpumemtrace::analyzer::join_test
