#include "analyzer/tournament.hpp"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/catch.hpp"

using namespace gpumemtrace;
using analyzer::Tournament;

TEST_CASE("streams of any number come out of a tournament in order", "[unit]") {
  std::mt19937_64 random(7);
  for (const std::size_t players : {0u, 1u, 2u, 3u, 5u, 8u, 64u, 65u}) {
    // Few different keys, so that many are equal.
    std::vector<std::vector<std::uint64_t>> streams(players);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> expected;
    std::vector<std::uint64_t> heads;
    for (std::size_t i = 0; i < players; ++i) {
      for (std::uint64_t length = random() % 50; length > 0; --length) {
        streams[i].push_back(random() % 40);
        expected.emplace_back(streams[i].back(), i);
      }
      std::sort(streams[i].begin(), streams[i].end());
      heads.push_back(streams[i].empty() ? Tournament::kLast : streams[i].front());
    }
    std::sort(expected.begin(), expected.end());

    Tournament tournament(heads);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> order;
    std::vector<std::size_t> next(players, 0);
    while (tournament.winner().key != Tournament::kLast) {
      const Tournament::Entry winner = tournament.winner();
      heads[winner.player] = Tournament::kLast;
      const auto second = std::min_element(heads.begin(), heads.end());
      CHECK(tournament.runner_up_key() == *second);
      order.emplace_back(winner.key, winner.player);
      const std::vector<std::uint64_t>& stream = streams[winner.player];
      const std::size_t position = ++next[winner.player];
      heads[winner.player] = position < stream.size() ? stream[position] : Tournament::kLast;
      tournament.replace_winner(heads[winner.player]);
    }
    CHECK(order == expected);
  }
}
