// SPDX-License-Identifier: Apache-2.0
#include "analyzer/base/row_order.hpp"

#include <algorithm>
#include <numeric>

namespace gpumemtrace::analyzer {

std::vector<std::size_t> order_of(const std::vector<std::uint64_t>& numbers) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return numbers[i]; });
  return order;
}

}  // namespace gpumemtrace::analyzer
