// SPDX-License-Identifier: Apache-2.0
// Converts times of CUPTI to the recorder's ticks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/base/clock.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// The time of an activity on the GPU or of a call, in ticks of the recorder.
struct TickSpan {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  [[nodiscard]] std::uint64_t ticks() const { return end - start; }
};

// Each copy of libcupti has a clock of its own, and other clients may exchange it: the time between
// two exchanges is an epoch. Within an epoch the mapping is piecewise linear between the pairs that
// the recorder took, and straight on before the first and after the last.
// - An epoch with one pair alone has a rate only if that pair says what the clock counts: the
//   ticks themselves or, in epoch 0, nanoseconds of CLOCK_REALTIME.
class ActivityClocks {
 public:
  ActivityClocks() = default;
  // `clock` is that of the same process and gives the rate of its ticks.
  ActivityClocks(const std::vector<trace::ActivityClock>& pairs, const Clock& clock);

  // Adds a pair of CUPTI's time and the recorder's ticks. Pairs may come in any order, and
  // repeatedly.
  void add(const trace::ActivityClock& pair);

  // Converts the times of a CUPTI record that the recorder got at `taken_over` ticks. The record
  // belongs to the last epoch in which `start` lies before `taken_over`. nullopt if no epoch fits,
  // or the record has no times.
  [[nodiscard]] std::optional<TickSpan> convert_to_ticks(std::uint16_t library, std::uint64_t start,
                                                         std::uint64_t end,
                                                         std::uint64_t taken_over) const;

  [[nodiscard]] bool empty() const { return epochs_.empty(); }
  // The largest error of a converted time: the largest sum of half of a pair's uncertainty and the
  // pair's distance from the line through its neighbours.
  [[nodiscard]] std::uint64_t error_ticks() const { return error_ticks_; }
  // An interval that reaches beyond another by no more than this may still lie within it: the sum
  // of the error and of the time for reading two clocks one after the other.
  [[nodiscard]] std::uint64_t tolerance_ticks() const { return limits_.tolerance; }

 private:
  struct Pair {
    std::uint64_t timestamp = 0;
    std::uint64_t ticks = 0;  // ticks in the middle of the reading of CUPTI's clock
    std::uint64_t uncertainty = 0;
    double ticks_per_unit = 0;  // rate from this pair to the next
  };
  // The times of CUPTI from one pair to the next, all converted by the former.
  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
    std::uint64_t timestamp = 0;  // CUPTI's time of the pair
    std::uint64_t ticks = 0;
    double ticks_per_unit = 0;
  };
  struct Epoch {
    std::uint32_t library = 0;
    std::uint32_t number = 0;
    std::vector<Pair> pairs;
    double ticks_per_unit = 0;  // rate over the whole epoch; 0 = not known
    mutable Piece latest;       // the piece that was looked up last
  };
  // Limits in ticks, computed from error_ticks_ and ticks_per_ns_.
  struct Limits {
    // longest activity, and longest delay until the recorder got its record
    double longest = 0;
    // below 0: by the clocks' error, an activity may seem to start after the recorder got its
    // record
    double shortest_delay = 0;
    std::uint64_t tolerance = 0;
  };

  [[nodiscard]] Epoch& find_or_add_epoch(std::uint32_t library, std::uint32_t number);
  void assume_time_of_day(std::uint32_t library);
  void measure(Epoch& epoch, std::size_t changed);
  void update_limits();
  [[nodiscard]] double rate_of_single(const Pair& pair, bool is_first) const;
  [[nodiscard]] static const Piece& piece_of(const Epoch& epoch, std::uint64_t timestamp);
  static void look_up(const Epoch& epoch, std::uint64_t timestamp);

  std::vector<Epoch> epochs_;  // a few epochs, sorted by library and number
  std::vector<ClockPoint> realtime_;
  double ticks_per_ns_ = 1.0;
  std::uint64_t error_ticks_ = 0;
  Limits limits_;
};

}  // namespace gpumemtrace::analyzer
