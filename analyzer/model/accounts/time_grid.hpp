// SPDX-License-Identifier: Apache-2.0
// Cuts a process's run, the length of which is not known beforehand, into stretches of equal
// length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::analyzer {

// - Stretch i begins at origin + i * length. The length is a power of two of ticks: when a time
//   lies behind the last possible stretch, stretches 2i and 2i + 1 become one and the length
//   doubles. So more than half of the possible stretches exist once the run is that many ticks
//   long.
// - All timelines of a process are cut at the same times.
class TimeGrid {
 public:
  explicit TimeGrid(std::size_t most) : most_(std::max(most, kFewest)) {}

  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  [[nodiscard]] bool is_started() const { return end_ != 0; }
  void start(std::uint64_t origin) {
    shift_ = 0;
    origin_ = origin;
    move_to(origin);
  }
  // The time at which the present stretch ends; 0 before start().
  [[nodiscard]] std::uint64_t end() const { return end_; }
  [[nodiscard]] std::size_t present() const { return present_; }
  [[nodiscard]] std::size_t index_of(std::uint64_t time) const {
    return time < origin_ ? 0 : static_cast<std::size_t>((time - origin_) >> shift_);
  }
  // The time at which the stretch begins; kNever if that is beyond the last possible tick.
  [[nodiscard]] std::uint64_t start_of(std::size_t index) const {
    return index > (kNever - origin_) >> shift_ ? kNever
                                                : origin_ + (std::uint64_t{index} << shift_);
  }
  [[nodiscard]] bool reaches(std::uint64_t time) const { return index_of(time) < most_; }
  void join_pairs() {
    ++shift_;
    present_ /= 2;
    move_to(start_of(present_));
  }
  // Ends the present stretch. The stretch after it never ends: later events count in no stretch.
  void close() {
    ++present_;
    end_ = kNever;
  }
  // Makes the stretch of the time the present one. Times do not go back.
  void move_to(std::uint64_t time) {
    present_ = index_of(time);
    end_ = start_of(present_ + 1);
  }

 private:
  // The widest stretch is half of all possible ticks.
  static constexpr std::size_t kFewest = 2;

  std::size_t most_;
  unsigned shift_ = 0;
  std::uint64_t origin_ = 0;
  std::size_t present_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace gpumemtrace::analyzer
