// SPDX-License-Identifier: Apache-2.0
// What walks remember makes them faster and never changes what they find.

#include "preload/native/unwind_cache.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "preload/native/native_frames.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::preload::native {
namespace {

std::uint32_t one_serial(const LoadedModule&) noexcept { return 1; }

// A way down: which function calls which. The innermost one walks.
struct Descent {
  std::vector<std::uint8_t> functions;
  std::size_t depth = 0;
  std::size_t capacity = kMaxFrames;
  UnwindCache* memory = nullptr;
  bool agreed = true;
  std::size_t frames = 0;
};

[[gnu::noinline]] void walk_twice(Descent& descent) {
  const Caller caller = caller_of_this_function();
  std::uint64_t with[kMaxFrames];
  std::uint64_t without[kMaxFrames];
  Walk found;
  if (!read_expected(caller, descent.capacity, *descent.memory, found)) {
    found = read_frames(caller, with, descent.capacity, descent.memory);
  }
  const Walk expected = read_frames(caller, without, descent.capacity);
  descent.frames = expected.count;
  descent.agreed = descent.agreed && found.count == expected.count && found.hash == expected.hash &&
                   found.cut == expected.cut &&
                   std::memcmp(found.addresses, without, found.count * sizeof without[0]) == 0;
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

// Frames of different sizes; of each kind one whose address is found by rbp, because its size is
// known only when it runs.
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
    // Mostly in one order, as the steps of a program; now and then another way or capacity.
    const bool is_odd_one = random() % 8 == 0;
    descent.functions = is_odd_one && random() % 2 == 0 ? random_way(random, 60)
                        : is_odd_one                    ? ways[random() % ways.size()]
                                     : ways[static_cast<std::size_t>(i) % ways.size()];
    descent.capacity = random() % 50 == 0 ? random() % kMaxFrames : kMaxFrames;
    descent.depth = 0;
    go_on(descent);
    REQUIRE(descent.agreed);
  }
}

TEST_CASE("walks that come again in the same order are expected", "[unit]") {
  REQUIRE(prepare(one_serial));
  std::mt19937 random(11);
  const auto memory = std::make_unique<UnwindCache>();
  std::vector<std::vector<std::uint8_t>> ways;
  for (int i = 0; i < 20; ++i) ways.push_back(random_way(random, 10));
  Descent descent;
  descent.memory = memory.get();
  int expected = 0;
  constexpr int kWalks = 400;
  for (int i = 0; i < 2 * kWalks; ++i) {
    descent.functions = ways[static_cast<std::size_t>(i) % ways.size()];
    descent.depth = 0;
    const RememberedWalk& walk = memory->expected();
    const std::size_t count = walk.count;
    go_on(descent);
    const std::size_t most = RememberedWalk::kMaxFrames;
    if (i >= kWalks && count == (descent.frames < most ? descent.frames : most)) ++expected;
  }
  CHECK(expected > kWalks * 9 / 10);
}

}  // namespace gpumemtrace::preload::native
