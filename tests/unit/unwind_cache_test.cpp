// SPDX-License-Identifier: Apache-2.0
// Stack walks that use the cache of earlier walks are faster and find the same frames.

#include "preload/native/unwind_cache.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "preload/native/native_frames.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::preload::native::unwind_cache_test {
namespace {

std::uint32_t one_serial(const LoadedModule&) noexcept { return 1; }

// A chain of calls (a way down the stack); the innermost function walks the stack.
struct Descent {
  std::vector<std::uint8_t> functions;
  std::size_t depth = 0;
  std::size_t capacity = kMaxFrames;
  UnwindCache* memory = nullptr;
  bool agreed = true;
  bool was_expected = false;
};

[[gnu::noinline]] void walk_twice(Descent& descent) {
  const Caller caller = caller_of_this_function();
  std::uint64_t without[kMaxFrames];
  const Walk right = read_frames(caller, without, descent.capacity);
  const RememberedWalk* const expected = read_expected(caller, descent.capacity, *descent.memory);
  descent.was_expected = expected != nullptr;
  if (expected != nullptr) {
    descent.agreed = descent.agreed && expected->hash == right.hash;
    return;
  }
  std::uint64_t with[kMaxFrames];
  const Walk found = read_frames(caller, with, descent.capacity, descent.memory);
  descent.agreed = descent.agreed && found.count == right.count && found.hash == right.hash &&
                   found.cut == right.cut &&
                   std::memcmp(with, without, found.count * sizeof without[0]) == 0;
}

using Function = int (*)(Descent&);
extern const std::array<Function, 24> functions;

int go_on(Descent& descent) {
  if (descent.depth == descent.functions.size()) {
    walk_twice(descent);
    return 0;
  }
  return functions[descent.functions[descent.depth++]](descent);
}

// Functions with frames of different sizes; each third frame's address is found by rbp, because its
// size is known only at run time.
template <std::size_t kIndex>
[[gnu::noinline]] int call(Descent& descent) {
  if constexpr (kIndex % 3 == 0) {
    auto* room = static_cast<char*>(__builtin_alloca(16 * (descent.depth % 5 + 1)));
    std::memset(room, 1, 16);
    const int result = go_on(descent);
    return result + room[3];
  } else {
    volatile char room[8 * kIndex + 1] = {};
    const int result = go_on(descent);
    return result + room[0] + 1;
  }
}
template <std::size_t... kIndex>
constexpr std::array<Function, sizeof...(kIndex)> all(std::index_sequence<kIndex...>) {
  return {call<kIndex>...};
}
const std::array<Function, 24> functions = all(std::make_index_sequence<24>());

std::vector<std::uint8_t> random_way(std::mt19937& random, std::size_t most) {
  std::vector<std::uint8_t> way(random() % most);
  for (auto& function : way) function = static_cast<std::uint8_t>(random() % functions.size());
  return way;
}

// Makes the way's calls, the last of which walks the stack. Returns 1 if the cache expected the
// walk, else 0.
int walk_down(Descent& descent, const std::vector<std::uint8_t>& way) {
  descent.functions = way;
  descent.depth = 0;
  go_on(descent);
  return descent.was_expected ? 1 : 0;
}

}  // namespace

TEST_CASE("a walk with a memory finds what one without finds", "[unit]") {
  REQUIRE(prepare(one_serial));
  std::mt19937 random(7);
  const auto memory = std::make_unique<UnwindCache>();
  std::vector<std::vector<std::uint8_t>> ways;
  for (int i = 0; i < 60; ++i) ways.push_back(random_way(random, 60));
  Descent descent;
  descent.memory = memory.get();
  for (int i = 0; i < 20'000; ++i) {
    // Most ways come in a fixed order, as a program's steps; one in eight is out of order or new,
    // and some walks have a smaller capacity.
    const bool is_odd_one = random() % 8 == 0;
    const auto way = is_odd_one && random() % 2 == 0 ? random_way(random, 60)
                     : is_odd_one                    ? ways[random() % ways.size()]
                                  : ways[static_cast<std::size_t>(i) % ways.size()];
    descent.capacity = random() % 50 == 0 ? random() % kMaxFrames : kMaxFrames;
    walk_down(descent, way);
    REQUIRE(descent.agreed);
  }
}

// Counts how many of 4,000 walks the cache expects, after 4,000 earlier walks down the same twenty
// ways.
constexpr int kWalks = 4000;
template <class NextWay>
int count_expected(unsigned seed, std::size_t capacity, NextWay&& next_way) {
  std::mt19937 random(seed);
  const auto memory = std::make_unique<UnwindCache>();
  constexpr std::size_t kFrames = 45;
  std::vector<std::vector<std::uint8_t>> ways;
  for (int i = 0; i < 20; ++i) ways.push_back(random_way(random, kFrames));
  Descent descent;
  descent.memory = memory.get();
  descent.capacity = capacity;
  int expected = 0;
  for (int i = 0; i < 2 * kWalks; ++i) {
    const int found = walk_down(descent, ways[next_way(i, random) % ways.size()]);
    if (i >= kWalks) expected += found;
  }
  CHECK(descent.agreed);
  return expected;
}
std::size_t in_order(int i, std::mt19937&) { return static_cast<std::size_t>(i); }
std::size_t in_any_order(int, std::mt19937& random) { return random(); }

TEST_CASE("walks that come again are expected", "[unit]") {
  REQUIRE(prepare(one_serial));
  constexpr std::size_t kRecordersDefault = 64;
  SECTION("in the same order") {
    CHECK(count_expected(11, kRecordersDefault, in_order) > kWalks * 9 / 10);
  }
  SECTION("in any order") {
    // Some ways are equally deep and may follow the same way, so the cache may expect the wrong
    // one. How often depends on where code and stack lie, so the test takes the median of several
    // counts.
    std::array<int, 9> counts{};
    for (unsigned i = 0; i < counts.size(); ++i) {
      counts[i] = count_expected(11 + i, kRecordersDefault, in_any_order);
    }
    std::sort(counts.begin(), counts.end());
    CHECK(counts[counts.size() / 2] > kWalks * 3 / 4);
  }
  SECTION("cut where they are deeper than wanted") {
    CHECK(count_expected(11, 10, in_order) > kWalks * 9 / 10);
  }
}

}  // namespace gpumemtrace::preload::native::unwind_cache_test
