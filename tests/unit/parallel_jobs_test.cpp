// SPDX-License-Identifier: Apache-2.0
// Jobs whose processes are analyzed by several threads.
#include <cstdint>
#include <filesystem>
#include <string>

#include "analyzer/base/parallel.hpp"
#include "analyzer/json/report_json.hpp"
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer::parallel_jobs_test {
namespace {

using tests::kMiB;

// Ranks that allocate at different times; two of them share each card.
void write_job(const std::filesystem::path& folder) {
  constexpr std::uint64_t kAddress = 0x900000000;
  constexpr std::uint32_t kRanks = 12;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    tests::TraceBuilder trace(100 + rank);
    trace.device(0, 7000 + rank / 2, std::uint64_t{8} << 30);
    for (std::uint64_t i = 0; i < 50; ++i) {
      trace.allocate(kAddress + i * 64 * kMiB, (1 + (i * rank) % 7) * kMiB);
      if (i % 3 != rank % 3) trace.free(kAddress + i * 64 * kMiB);
    }
    trace.write(folder, tests::Ending::kExit);
  }
}

}  // namespace

TEST_CASE("a report is the same, however many threads made it", "[unit]") {
  const tests::TemporaryFolder folder;
  write_job(folder.path());
  const std::string report = to_text(analyze({folder.path()}, {}));
  const OneThread one_thread;
  CHECK(to_text(analyze({folder.path()}, {})) == report);
}

}  // namespace gpumemtrace::analyzer::parallel_jobs_test
