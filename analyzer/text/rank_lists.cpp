// SPDX-License-Identifier: Apache-2.0
#include "analyzer/text/rank_lists.hpp"

namespace gpumemtrace::analyzer {

std::string rank_list_text(const std::vector<std::uint64_t>& ranks, std::size_t most_parts) {
  std::string text;
  std::size_t begin = 0;
  for (std::size_t parts = 0; begin < ranks.size(); ++parts) {
    if (parts == most_parts) {
      return text + " and " + std::to_string(ranks.size() - begin) + " more";
    }
    std::size_t last = begin;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[begin]);
    if (last != begin) text += (last == begin + 1 ? ", " : "-") + std::to_string(ranks[last]);
    begin = last + 1;
  }
  return text;
}

}  // namespace gpumemtrace::analyzer
