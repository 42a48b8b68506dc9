// SPDX-License-Identifier: Apache-2.0
// Finds the period of a program's allocations, if nothing else tells its steps.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analyzer/base/flat_map.hpp"

namespace gpumemtrace::analyzer {

// An allocation that comes once in each period has always the same number of others before its
// next. Such an allocation is a candidate; at the end one of them is chosen to mark the steps.
// - One look-up for each allocation while candidates are searched, none later; memory is bounded.
// - The shortest period that holds nearly everywhere wins: longer ones are multiples of it.
class Periods {
 public:
  static constexpr std::size_t kMaxCandidates = 4;
  static constexpr std::size_t kNone = ~std::size_t{0};

  // Takes an allocation of so many bytes from call site `site`. Returns the candidate whose next
  // period begins here, or kNone.
  std::size_t add(std::uint32_t site, std::uint64_t bytes);
  // The candidate whose periods are the steps, or kNone.
  [[nodiscard]] std::size_t best() const;

 private:
  struct Seen {
    std::uint64_t key = 0;
    std::uint64_t last = 0;  // number of the allocation
    std::uint64_t gap = 0;
    std::uint64_t equal_gaps = 0;
  };
  struct Candidate {
    std::uint64_t key = 0;
    std::uint64_t period = 0;
    std::uint64_t first = 0;  // number of the allocation that it was found at
    std::uint64_t last = 0;
    std::uint64_t equal = 0;  // periods of that length
    std::uint64_t other = 0;
  };

  void search(std::uint64_t key);
  void nominate(const Seen& seen);
  std::size_t follow(std::uint64_t key);

  std::uint64_t count_ = 0;
  FlatMap<Seen, &Seen::key> seen_;
  std::vector<Candidate> candidates_;
};

}  // namespace gpumemtrace::analyzer
