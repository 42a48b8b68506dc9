// SPDX-License-Identifier: Apache-2.0
// Sorts rows by numbers. Numbers with indexes are sorted, not the rows: one sort serves rows of any
// type, and each row is moved once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpumemtrace::analyzer {

// The indexes of the numbers in ascending order; equal numbers stay in their order.
[[nodiscard]] std::vector<std::size_t> order_of(const std::vector<std::uint64_t>& numbers);

// Sorts rows by the numbers that number_of(row) returns, in ascending order; equal rows stay in
// their order.
template <class Row, class NumberOf>
void order_rows(std::vector<Row>& list, NumberOf&& number_of) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(list.size());
  for (const Row& row : list) numbers.push_back(number_of(row));
  if (std::ranges::is_sorted(numbers)) return;
  std::vector<Row> ordered;
  ordered.reserve(list.size());
  for (const std::size_t i : order_of(numbers)) ordered.push_back(std::move(list[i]));
  list = std::move(ordered);
}

}  // namespace gpumemtrace::analyzer
