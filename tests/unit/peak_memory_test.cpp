// SPDX-License-Identifier: Apache-2.0
// The parts of the reserved bytes that no block asked for at the peak, and the stacks that these
// parts are due to.
#include "analyzer/replay/peak_memory.hpp"

#include <cstdint>
#include <map>
#include <optional>

#include "tests/catch.hpp"

namespace gpumemtrace::peak_memory_test {

using namespace gpumemtrace::analyzer::replay;
using gpumemtrace::trace::StackId;

namespace {

using Pool = PeakMemory::Pool;
using Block = PeakMemory::Block;

constexpr Pool kLarge{0, false};
constexpr Pool kSmall{0, true};
constexpr StackId kFirst{1};
constexpr StackId kSecond{2};
constexpr StackId kThird{3};

// Feeds the calls of an allocator to PeakMemory, one event each.
class Calls {
 public:
  void segment(std::uint64_t address, std::uint64_t bytes, Pool pool = kLarge) {
    memory.begin_event(++events_);
    memory.add_segment(address, bytes, pool);
    reserved += bytes;
  }
  void page(std::uint64_t address, std::uint64_t bytes) {
    memory.begin_event(++events_);
    memory.add_page(address, bytes, kLarge);
    reserved += bytes;
  }
  void take(std::uint64_t address, std::uint64_t bytes, StackId stack, Pool pool = kLarge,
            std::uint64_t requested = 0) {
    memory.begin_event(++events_);
    const Block block{address, bytes, requested == 0 ? bytes : requested, stack, events_};
    live_[address] = block;
    memory.update_peak(block, pool, reserved);
  }
  // Frees a block; `free_from` and `free_to` bound the free memory that it becomes a part of.
  void free(std::uint64_t address, std::uint64_t free_from, std::uint64_t free_to) {
    memory.begin_event(++events_);
    const Block block = live_.at(address);
    live_.erase(address);
    memory.note_free(block, free_from, free_to);
  }
  void release(std::uint64_t address, std::uint64_t bytes) {
    memory.begin_event(++events_);
    memory.remove(address, bytes);
    reserved -= bytes;
  }
  [[nodiscard]] Unusable unusable(
      std::uint64_t max_split_bytes = AllocatorSettings::kNoLimit) const {
    std::vector<Block> blocks;
    for (const auto& [address, block] : live_) blocks.push_back(block);
    return memory.unusable(std::move(blocks), max_split_bytes);
  }

  PeakMemory memory;
  std::uint64_t reserved = 0;

 private:
  std::uint64_t events_ = 0;
  std::map<std::uint64_t, Block> live_;
};

std::uint64_t sum_of(const UnusableByStack& by_stack) {
  std::uint64_t sum = 0;
  for (const auto& [stack, part] : by_stack) sum += part.bytes;
  return sum;
}

}  // namespace

TEST_CASE("unusable bytes at the peak are those that no block in use asked for", "[unit]") {
  Calls calls;
  calls.segment(0, 12 * kMib, {1, false});
  calls.take(0, 12 * kMib, kFirst, {1, false});
  calls.free(0, 0, 12 * kMib);
  calls.segment(100 * kMib, 2 * kMib, kSmall);
  calls.take(100 * kMib, 1024, kSecond, kSmall, 700);
  calls.segment(200 * kMib, 20 * kMib);
  calls.take(200 * kMib, 3 * kMib, kThird);
  Unusable unusable = calls.unusable();
  CHECK(sum_of(unusable[Cause::kOtherStreams]) == 12 * kMib);
  CHECK(sum_of(unusable[Cause::kRounding]) == 1024 - 700);
  CHECK(sum_of(unusable[Cause::kOtherPool]) == 2 * kMib - 1024);
  CHECK(sum_of(unusable[Cause::kRestOfSegment]) == 17 * kMib);
  std::uint64_t sum = 0;
  for (const auto& [cause, by_stack] : unusable) sum += sum_of(by_stack);
  CHECK(sum + 700 + 3 * kMib == calls.reserved);
}

TEST_CASE("all blocks of a segment keep what is free in it, by what they hold", "[unit]") {
  Calls calls;
  calls.segment(0, 20 * kMib);
  calls.take(0, 2 * kMib, kFirst);
  calls.take(2 * kMib, 6 * kMib, kThird);
  calls.take(8 * kMib, 4 * kMib, kSecond);
  calls.free(2 * kMib, 2 * kMib, 8 * kMib);
  calls.segment(100 * kMib, 30 * kMib);
  calls.take(100 * kMib, 30 * kMib, kThird);
  // The free pieces are 6 MiB before the second block and 8 MiB behind it.
  Unusable unusable = calls.unusable();
  UnusableByStack& pieces = unusable[Cause::kPieces];
  CHECK(pieces.size() == 2);
  CHECK(sum_of(pieces) == 14 * kMib);
  CHECK(pieces[kFirst].bytes + pieces[kSecond].bytes == 14 * kMib);
  CHECK(pieces[kSecond].bytes / kUnitBytes == 14 * kMib * 2 / 3 / kUnitBytes + 1);
  CHECK(pieces[kFirst].releasable == 0);
  // With max_split_size_mb=8, a free piece of 8 MiB counts as kept for large requests.
  unusable = calls.unusable(8 * kMib);
  CHECK(sum_of(unusable[Cause::kPieces]) == 6 * kMib);
  CHECK(sum_of(unusable[Cause::kOversize]) == 8 * kMib);
}

TEST_CASE("a segment without a block is due to the last one that it had before the peak",
          "[unit]") {
  Calls calls;
  calls.segment(0, 20 * kMib);
  calls.take(0, 4 * kMib, kFirst);
  calls.take(4 * kMib, 4 * kMib, kSecond);
  calls.free(4 * kMib, 4 * kMib, 20 * kMib);
  calls.free(0, 0, 20 * kMib);
  calls.segment(100 * kMib, 30 * kMib);
  calls.take(100 * kMib, 30 * kMib, kSecond);  // this block makes the peak
  const auto check = [&] {
    Unusable unusable = calls.unusable();
    UnusableByStack& pieces = unusable[Cause::kPieces];
    CHECK(pieces.size() == 1);
    CHECK(pieces[kFirst].bytes == 20 * kMib);
    CHECK(pieces[kFirst].releasable == 20 * kMib);
    CHECK(unusable.size() == 1);
  };
  check();
  // Calls after the peak change nothing.
  calls.take(0, 20 * kMib, kThird);
  calls.free(0, 0, 20 * kMib);
  calls.free(100 * kMib, 100 * kMib, 130 * kMib);
  check();
  calls.release(0, 20 * kMib);
  calls.release(100 * kMib, 30 * kMib);
  check();
  calls.segment(0, 40 * kMib);
  calls.take(0, 40 * kMib, kThird);
  check();
}

TEST_CASE("a block smaller than the allocator's unit keeps its segment, too", "[unit]") {
  Calls calls;
  calls.segment(0, 20 * kMib);
  calls.take(0, 100, kFirst);
  calls.segment(100 * kMib, 30 * kMib);
  calls.take(100 * kMib, 30 * kMib, kThird);
  Unusable unusable = calls.unusable();
  CHECK(unusable[Cause::kPieces][kFirst].bytes > 19 * kMib);
}

TEST_CASE("of expandable segments each page is one for itself", "[unit]") {
  Calls calls;
  for (std::uint64_t page = 0; page < 3; ++page) calls.page(page * 20 * kMib, 20 * kMib);
  calls.take(0, 12 * kMib, kFirst);
  calls.take(12 * kMib, 30 * kMib, kSecond);  // this block reaches into the third page
  calls.take(42 * kMib, 2 * kMib, kThird);
  calls.free(12 * kMib, 12 * kMib, 42 * kMib);
  calls.page(60 * kMib, 20 * kMib);
  calls.take(44 * kMib, 35 * kMib, kThird);
  Unusable unusable = calls.unusable();
  UnusableByStack& pieces = unusable[Cause::kPieces];
  CHECK(pieces[kFirst].bytes == 8 * kMib);    // free memory beside the first block
  CHECK(pieces[kSecond].bytes == 20 * kMib);  // the second page, in which only this block lay
  CHECK(pieces[kSecond].releasable == 20 * kMib);
  CHECK(pieces[kThird].bytes == 2 * kMib);
  UnusableByStack& rest = unusable[Cause::kRestOfSegment];
  CHECK(rest[kThird].bytes == kMib);
}

TEST_CASE("of memory that nobody used nobody knows a line", "[unit]") {
  Calls calls;
  calls.segment(0, 20 * kMib);
  calls.segment(100 * kMib, 30 * kMib);
  calls.take(100 * kMib, 30 * kMib, kFirst);
  Unusable unusable = calls.unusable();
  CHECK(unusable[Cause::kPieces][std::nullopt].bytes == 20 * kMib);
}

}  // namespace gpumemtrace::peak_memory_test
