// SPDX-License-Identifier: Apache-2.0
// Report rows that compare the processes of a job with each other.
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::ranks_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

constexpr std::uint64_t kAddress = 0x900000000;
constexpr std::uint64_t kCard = std::uint64_t{8} << 30;

// Writes the trace of a process that leaks `leaked` bytes and frees `freed` bytes, each allocated
// in one call.
void write_process(std::uint32_t pid, std::uint64_t leaked, std::uint64_t freed,
                   const std::filesystem::path& folder) {
  TraceBuilder trace(pid);
  trace.device(0, 7000 + pid, kCard);
  trace.allocate(kAddress, leaked);
  if (freed != 0) trace.allocate(kAddress + kCard, freed);
  if (freed != 0) trace.free(kAddress + kCard);
  trace.write(folder, Ending::kExit);
}

}  // namespace

TEST_CASE("ranks stand side by side, with what tells the one that differs", "[unit]") {
  const TemporaryFolder folder;
  write_process(101, kMiB, kMiB, folder.path());
  write_process(102, kMiB, 0, folder.path());
  write_process(103, kMiB, 8 * kMiB, folder.path());
  const Json report = analyze_json({folder.path()});
  keep_report(report);
  const Json& ranks = report.at("ranks");
  REQUIRE(ranks.size() == 3);
  CHECK(ranks[0].at("process") == "p3");
  CHECK(ranks[0].at("peak_bytes") == 9 * kMiB);
  CHECK(ranks[0].at("deviation") == 7 * kMiB);
  CHECK(ranks[1].at("deviation") == 0);
  CHECK(ranks[2].at("deviation").get<double>() == -static_cast<double>(kMiB));
  for (const Json& row : ranks) {
    CHECK(row.at("leaked_bytes") == kMiB);
    CHECK(row.at("reserved_peak_bytes").is_null());
    CHECK(row.at("growth_bytes_per_step").is_null());
  }
}

TEST_CASE("a single process deviates from nobody", "[unit]") {
  TraceBuilder trace;
  trace.allocate(kAddress, kMiB);
  const Json report = report_of(trace);
  REQUIRE(report.at("ranks").size() == 1);
  CHECK(report.at("ranks")[0].at("deviation").is_null());
}

}  // namespace gpumemtrace::ranks_test
