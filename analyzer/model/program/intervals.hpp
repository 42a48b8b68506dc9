// SPDX-License-Identifier: Apache-2.0
// Steps and ranges that are open, and a bounded number of those that are over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "analyzer/model/accounts/accounts.hpp"

namespace gpumemtrace::analyzer {

// The use of one level of memory in an interval.
struct IntervalUse {
  std::uint64_t peak_bytes = 0;
  std::uint64_t live_bytes_at_start = 0;
  std::uint64_t live_bytes_at_end = 0;
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
};

struct Interval {
  std::uint64_t index = 0;
  std::uint64_t start = 0;  // model time
  std::uint64_t end = 0;    // 0: it was open when the trace ended
  std::uint32_t name = 0;
  IntervalUse framework;
  IntervalUse driver;  // and pools
  std::uint64_t transfers_bytes = 0;
};

// Measures intervals that may overlap. An event costs nothing; a begin or an end visits every open
// interval.
class IntervalMeter {
 public:
  explicit IntervalMeter(Accounts& accounts) : accounts_(accounts) {}

  static constexpr std::size_t kNone = ~std::size_t{0};
  // The interval's slot until its end; kNone if too many are open.
  [[nodiscard]] std::size_t begin(std::uint64_t index, std::uint32_t name, std::uint64_t now);
  // Ends the interval at `now` and returns its measurements.
  [[nodiscard]] Interval end(std::size_t slot, std::uint64_t now);
  // The same without an end, at the end of the trace.
  [[nodiscard]] Interval cut(std::size_t slot);
  // Takes over the peak of memory since the last begin or end.
  void absorb();

  void count_transfer(std::uint64_t bytes) { transfers_bytes_ += bytes; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  void drop(std::size_t slot);

  Accounts& accounts_;
  std::vector<Interval> slots_;  // those in unused_ are closed
  std::vector<std::size_t> unused_;
  std::uint64_t transfers_bytes_ = 0;
  std::uint64_t left_out_ = 0;  // intervals for which there was no slot
};

// All intervals of one name.
struct IntervalSums {
  struct Use {
    std::uint64_t peak_bytes = 0;  // the highest of them
    std::uint64_t allocated_bytes = 0;
    std::uint64_t live_delta_bytes = 0;  // modulo 2^64: what they left less what they took away
  };
  std::uint64_t count = 0;
  Use framework;
  Use driver;  // and pools
};

// Sums by name. The first kNames names have rows of their own.
class IntervalsByName {
 public:
  static constexpr std::size_t kNames = 1000;

  void add(const Interval& interval, const std::string& name);
  [[nodiscard]] const std::map<std::string, IntervalSums>& rows() const { return rows_; }
  // The sums of all other names.
  [[nodiscard]] const IntervalSums& rest() const { return rest_; }

 private:
  std::map<std::string, IntervalSums> rows_;
  IntervalSums rest_;
};

// The first ones, the last ones, and those with the highest peaks between.
class KeptIntervals {
 public:
  static constexpr std::size_t kEnds = 500;
  static constexpr std::size_t kHighest = 50;

  void add(const Interval& interval);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  // In the order of their starts.
  [[nodiscard]] std::vector<Interval> all() const;

 private:
  std::uint64_t count_ = 0;
  std::uint64_t left_out_ = 0;
  std::vector<Interval> first_;
  std::deque<Interval> last_;
  std::vector<Interval> highest_;
};

}  // namespace gpumemtrace::analyzer
