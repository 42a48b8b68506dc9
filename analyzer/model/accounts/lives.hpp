// SPDX-License-Identifier: Apache-2.0
// The sizes and lifetimes of the allocations of one level (ledger::Level) on one device, and the
// allocations that held most memory for longest.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/model/accounts/live_allocation.hpp"

namespace gpumemtrace::analyzer {

// Counts values by powers of two: row 0 has the zeros, row i the values from 2^(i-1) to below 2^i.
class Histogram {
 public:
  struct Row {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
  };
  static constexpr std::size_t kRows = 65;

  void add(std::uint64_t value, std::uint64_t bytes) {
    Row& row = row_of(value);
    ++row.count;
    row.bytes += bytes;
  }
  void remove(std::uint64_t value, std::uint64_t bytes) {
    Row& row = row_of(value);
    --row.count;
    row.bytes -= bytes;
  }
  // The rows up to the last one that was ever needed; at most kRows.
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

 private:
  Row& row_of(std::uint64_t value) {
    const auto row = static_cast<std::size_t>(std::bit_width(value));
    if (row >= rows_.size()) rows_.resize(row + 1);
    return rows_[row];
  }

  std::vector<Row> rows_;
};

// The allocations with the largest products of bytes and lifetime; of equal ones, those that began
// first. Keeps up to twice as many entries as it returns.
class LargestLives {
 public:
  static constexpr std::size_t kMost = 512;

  // A cheap test for every allocation that ends, so that add() is called for few.
  [[nodiscard]] bool may_belong(double weight) const { return weight > least_; }
  void add(const ReleasedAllocation& life, double weight) {
    kept_.push_back({life, weight});
    if (kept_.size() == 2 * kMost) keep_largest();
  }
  // Returns the kept lives, the largest first.
  [[nodiscard]] std::vector<ReleasedAllocation> all() const;

 private:
  struct Weighed {
    ReleasedAllocation life;
    double weight = 0;

    [[nodiscard]] bool is_before(const Weighed& other) const {
      return weight != other.weight ? weight > other.weight
                                    : life.entry.born < other.life.entry.born;
    }
  };

  void keep_largest();

  std::vector<Weighed> kept_;
  double least_ = 0;
};

}  // namespace gpumemtrace::analyzer
