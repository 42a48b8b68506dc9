// SPDX-License-Identifier: Apache-2.0
// Work that is divided among threads.
#include "analyzer/base/parallel.hpp"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.hpp"

namespace gpumemtrace::analyzer::parallel_test {
namespace {

constexpr std::size_t kParts = 1000;

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

}  // namespace gpumemtrace::analyzer::parallel_test
