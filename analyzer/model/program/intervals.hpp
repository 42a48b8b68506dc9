// SPDX-License-Identifier: Apache-2.0
// Measures steps and named ranges: all that are open, and a bounded number of those that have
// ended.
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
  std::uint64_t end = 0;    // model time; 0: the interval was open when the trace ended
  std::uint32_t name = 0;
  IntervalUse framework;
  IntervalUse driver;  // the use of driver memory and pools
  std::uint64_t transfers_bytes = 0;
};

// Measures intervals that may overlap. An event within them costs nothing. The begin or end of an
// interval visits all open intervals.
class IntervalMeter {
 public:
  explicit IntervalMeter(Accounts& accounts) : accounts_(accounts) {}

  static constexpr std::size_t kNone = ~std::size_t{0};
  // Begins an interval. Returns its slot, valid until its end; kNone if too many intervals are
  // open.
  [[nodiscard]] std::size_t begin(std::uint64_t index, std::uint32_t name, std::uint64_t now);
  // Ends the interval at `now` and returns its measurements.
  [[nodiscard]] Interval end(std::size_t slot, std::uint64_t now);
  // Measures an interval that is open at the end of the trace: it gets no end.
  [[nodiscard]] Interval cut(std::size_t slot);
  // Raises the peaks of all open intervals to the most memory since the last begin or end.
  void absorb();

  void count_transfer(std::uint64_t bytes) { transfers_bytes_ += bytes; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  void drop(std::size_t slot);

  Accounts& accounts_;
  std::vector<Interval> slots_;  // slots in unused_ have no open interval
  std::vector<std::size_t> unused_;
  std::uint64_t transfers_bytes_ = 0;
  std::uint64_t left_out_ = 0;  // intervals for which there was no slot
};

// Sums over all intervals of one name.
struct IntervalSums {
  struct Use {
    std::uint64_t peak_bytes = 0;  // the highest peak of any interval
    std::uint64_t allocated_bytes = 0;
    // sum of (live bytes at the end - live bytes at the start), modulo 2^64
    std::uint64_t live_delta_bytes = 0;
  };
  std::uint64_t count = 0;
  Use framework;
  Use driver;  // the use of driver memory and pools
};

// Sums of intervals by name. The first kNames names have rows of their own.
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

// Keeps the first intervals, the last ones, and between them those with the highest peaks.
class KeptIntervals {
 public:
  static constexpr std::size_t kEnds = 500;
  static constexpr std::size_t kHighest = 50;

  void add(const Interval& interval);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  // The kept intervals in the order of their starts.
  [[nodiscard]] std::vector<Interval> all() const;

 private:
  std::uint64_t count_ = 0;
  std::uint64_t left_out_ = 0;
  std::vector<Interval> first_;
  std::deque<Interval> last_;
  std::vector<Interval> highest_;
};

}  // namespace gpumemtrace::analyzer
