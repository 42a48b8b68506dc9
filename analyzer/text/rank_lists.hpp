// SPDX-License-Identifier: Apache-2.0
// Writes lists of ranks for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpumemtrace::analyzer {

// Writes ascending ranks: "0-3, 8". A list of more than `most_parts` parts ends with the number of
// ranks that are left out: "0, 2, 4 and 61 more".
[[nodiscard]] std::string rank_list_text(const std::vector<std::uint64_t>& ranks,
                                         std::size_t most_parts);

}  // namespace gpumemtrace::analyzer
