// SPDX-License-Identifier: Apache-2.0
#include "tools/base/named_bytes.hpp"

#include <algorithm>
#include <functional>

namespace gpumemtrace::tools {

std::vector<NamedBytes> largest_first(const BytesByName& sums) {
  std::vector<NamedBytes> holders;
  for (const auto& [name, bytes] : sums) holders.push_back({name, bytes});
  std::ranges::stable_sort(holders, std::ranges::greater(), &NamedBytes::bytes);
  return holders;
}

}  // namespace gpumemtrace::tools
