// SPDX-License-Identifier: Apache-2.0
#include "tools/base/spelling.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace gpumemtrace::tools {
namespace {

// The number of letters to add, remove or replace to make one of the other (Levenshtein).
std::size_t distance_of(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view written, const std::vector<std::string>& known) {
  std::string nearest;
  std::size_t least = std::max<std::size_t>(2, written.size() / 3) + 1;
  for (const std::string& name : known) {
    const std::size_t distance = distance_of(written, name);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

}  // namespace gpumemtrace::tools
