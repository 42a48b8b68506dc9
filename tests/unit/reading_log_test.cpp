// SPDX-License-Identifier: Apache-2.0
// A log of memory reads notices changes of the memory that was read, and of no other memory.

#include "preload/python/reading_log.hpp"

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/catch.hpp"

namespace gpumemtrace::preload::python::reading_log_test {
namespace {

template <class Value>
void read(ReadingLog& log, const Value& value) {
  Value copy = {};
  REQUIRE(read_noted(&log, &value, copy));
  REQUIRE(copy == value);
}

TEST_CASE("a log notices each change of what was read, and no other one", "[unit]") {
  // Distance between two noted words, in words. For 7 the log compares all notes by reading one
  // range, for 40 by reading a range for each note.
  const std::size_t step = GENERATE(7, 40);
  const auto log = std::make_unique<ReadingLog>();
  CHECK_FALSE(log->is_unchanged());        // nothing was read yet
  std::vector<std::uint64_t> words(4000);  // enough for several pages
  for (std::size_t i = 0; i < words.size(); i += step) read(*log, words[words.size() - 1 - i]);
  CHECK(log->is_unchanged());
  for (std::size_t i = 0; i < words.size(); ++i) {
    ++words[words.size() - 1 - i];
    CHECK(log->is_unchanged() == (i % step != 0));
    --words[words.size() - 1 - i];
  }
  CHECK(log->is_unchanged());
  log->clear();
  CHECK_FALSE(log->is_unchanged());
}

TEST_CASE("a log of more pieces than a system call takes is of no use", "[unit]") {
  constexpr std::size_t kStep = 40;
  const auto log = std::make_unique<ReadingLog>();
  std::vector<std::uint64_t> words(1025 * kStep);
  for (std::size_t i = 0; i < words.size(); i += kStep) read(*log, words[i]);
  CHECK_FALSE(log->is_unchanged());
}

TEST_CASE("two readings that differ are never taken for one that holds", "[unit]") {
  const auto log = std::make_unique<ReadingLog>();
  std::uint64_t word = 1;
  read(*log, word);
  word = 2;
  read(*log, word);
  CHECK_FALSE(log->is_unchanged());
  word = 1;
  CHECK_FALSE(log->is_unchanged());
}

TEST_CASE("memory that is gone has changed", "[unit]") {
  constexpr std::size_t kBytes = 4096;
  void* const page =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  const auto log = std::make_unique<ReadingLog>();
  read(*log, *static_cast<const std::uint64_t*>(page));
  CHECK(log->is_unchanged());
  munmap(page, kBytes);
  CHECK_FALSE(log->is_unchanged());
  std::uint64_t word = 0;
  CHECK_FALSE(read_noted(log.get(), page, word));
}

TEST_CASE("a log that has no room left is of no use, until it is cleared", "[unit]") {
  const auto log = std::make_unique<ReadingLog>();
  const std::array<std::uint64_t, 512> words = {};
  for (int i = 0; i < 100; ++i) read(*log, words);
  CHECK_FALSE(log->is_unchanged());
  log->clear();
  read(*log, words);
  CHECK(log->is_unchanged());
}

}  // namespace
}  // namespace gpumemtrace::preload::python::reading_log_test
