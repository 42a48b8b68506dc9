// The smallest of many keys, one of which changes at a time: a tree of losers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gpumemtrace::analyzer {

// - Each player has a key; the smallest wins, of equal ones that of the player with the smaller
//   number. kLast loses against every other key.
// - An inner node keeps who lost there, so the winner's new key meets one loser a level on its way
//   up. Who wins is as good as random where threads take turns, so no branch depends on it.
//
//            winner: 2            players 0..3 with the keys 7 5 1 3
//        [1]: 1                   node [1] is where 1 lost against 2
//    [2]: 0      [3]: 3
//   0     1     2     3
class Tournament {
 public:
  static constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();

  struct Entry {
    std::uint64_t key = kLast;
    std::uint64_t player = 0;

    friend bool operator<(const Entry& a, const Entry& b) {
      // As one number, so that it is one subtraction with its borrow.
      __extension__ using Wide = unsigned __int128;
      return ((Wide{a.key} << 64) | a.player) < ((Wide{b.key} << 64) | b.player);
    }
  };

  Tournament() : Tournament(std::vector<std::uint64_t>{}) {}
  explicit Tournament(const std::vector<std::uint64_t>& keys)
      : losers_(std::max<std::size_t>(1, keys.size())) {
    std::vector<Entry> winners(2 * losers_.size());
    for (std::size_t i = 0; i < keys.size(); ++i) winners[losers_.size() + i] = {keys[i], i};
    for (std::size_t node = losers_.size() - 1; node > 0; --node) {
      winners[node] = winners[2 * node];
      losers_[node] = winners[2 * node + 1];
      exchange_if(losers_[node] < winners[node], losers_[node], winners[node]);
    }
    winner_ = winners[1];
  }

  [[nodiscard]] const Entry& winner() const { return winner_; }

  // The smallest key but the winner's: it belongs to one of those that lost against the winner.
  [[nodiscard]] std::uint64_t runner_up_key() const {
    std::uint64_t second = kLast;
    for (std::size_t node = parent_of_winner(); node > 0; node /= 2) {
      second = std::min(second, losers_[node].key);
    }
    return second;
  }

  void replace_winner(std::uint64_t key) {
    Entry rising{key, winner_.player};
    for (std::size_t node = parent_of_winner(); node > 0; node /= 2) {
      exchange_if(losers_[node] < rising, losers_[node], rising);
    }
    winner_ = rising;
  }

 private:
  [[nodiscard]] std::size_t parent_of_winner() const {
    return (losers_.size() + winner_.player) / 2;
  }

  static void exchange_if(bool condition, Entry& a, Entry& b) {
    const std::uint64_t mask = std::uint64_t{0} - static_cast<std::uint64_t>(condition);
    const std::uint64_t keys = (a.key ^ b.key) & mask;
    const std::uint64_t players = (a.player ^ b.player) & mask;
    a = {a.key ^ keys, a.player ^ players};
    b = {b.key ^ keys, b.player ^ players};
  }

  std::vector<Entry> losers_;  // by node, as many as there are players; 0 is unused
  Entry winner_;
};

}  // namespace gpumemtrace::analyzer
