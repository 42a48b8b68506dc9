// SPDX-License-Identifier: Apache-2.0
// Work that is divided among threads, and jobs whose processes are.
#include "analyzer/base/parallel.hpp"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/json/report_json.hpp"
#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"

namespace gpumemtrace::analyzer {
namespace {

using tests::kMiB;

constexpr std::size_t kParts = 1000;

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

TEST_CASE("every part of the work is done once", "[unit]") {
  std::vector<std::atomic<int>> calls(kParts);
  in_parallel(kParts, [&](std::size_t i) { ++calls[i]; });
  for (const std::atomic<int>& count : calls) CHECK(count == 1);
  in_parallel(0, [](std::size_t) { FAIL("there is no part"); });
}

TEST_CASE("of several failures the first part's is told", "[unit]") {
  for (int i = 0; i < 20; ++i) {
    CHECK_THROWS_WITH(in_parallel(kParts,
                                  [](std::size_t part) {
                                    if (part >= 3) throw std::runtime_error(std::to_string(part));
                                  }),
                      "3");
  }
}

TEST_CASE("parts divide nothing themselves, nor does a thread that is to be alone", "[unit]") {
  std::atomic<int> elsewhere = 0;
  const auto count_other_threads = [&] {
    in_parallel(kParts, [&, self = std::this_thread::get_id()](std::size_t) {
      if (std::this_thread::get_id() != self) ++elsewhere;
    });
  };
  in_parallel(4, [&](std::size_t) { count_other_threads(); });
  const OneThread one_thread;
  count_other_threads();
  CHECK(elsewhere == 0);
}

TEST_CASE("a report is the same, however many threads made it", "[unit]") {
  const tests::TemporaryFolder folder;
  write_job(folder.path());
  const std::string report = to_text(analyze({folder.path()}, {}));
  const OneThread one_thread;
  CHECK(to_text(analyze({folder.path()}, {})) == report);
}

}  // namespace gpumemtrace::analyzer
