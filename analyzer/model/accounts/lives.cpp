// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/lives.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {

void LargestLives::keep_largest() {
  std::nth_element(kept_.begin(), kept_.begin() + (kMost - 1), kept_.end(),
                   [](const Weighed& a, const Weighed& b) { return a.is_before(b); });
  kept_.resize(kMost);
  least_ = kept_.back().weight;
}

std::vector<ReleasedAllocation> LargestLives::all() const {
  std::vector<Weighed> sorted = kept_;
  std::sort(sorted.begin(), sorted.end(),
            [](const Weighed& a, const Weighed& b) { return a.is_before(b); });
  sorted.resize(std::min(sorted.size(), kMost));
  std::vector<ReleasedAllocation> lives;
  lives.reserve(sorted.size());
  for (const Weighed& weighed : sorted) lives.push_back(weighed.life);
  return lives;
}

}  // namespace gpumemtrace::analyzer
