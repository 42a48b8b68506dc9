// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/lives.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {

void LargestLives::keep_largest() {
  std::ranges::nth_element(kept_, kept_.begin() + (kMost - 1), &Weighed::is_before);
  kept_.resize(kMost);
  least_ = kept_.back().weight;
}

std::vector<ReleasedAllocation> LargestLives::all() const {
  std::vector<Weighed> sorted = kept_;
  std::ranges::sort(sorted, &Weighed::is_before);
  sorted.resize(std::min(sorted.size(), kMost));
  std::vector<ReleasedAllocation> lives;
  lives.reserve(sorted.size());
  for (const Weighed& weighed : sorted) lives.push_back(weighed.life);
  return lives;
}

}  // namespace gpumemtrace::analyzer
