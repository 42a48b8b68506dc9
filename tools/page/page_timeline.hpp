// SPDX-License-Identifier: Apache-2.0
// Memory over time in fewer buckets.
#pragma once

#include <cstddef>
#include <vector>

#include "analyzer/rows/time_rows.hpp"

namespace gpumemtrace::tools {

// The most buckets of a row such that `rows` of them can be decoded at once.
[[nodiscard]] std::size_t most_buckets_of(std::size_t rows);

// Merges neighbours until no row has more than `most` buckets: the largest maximum stays, with its
// instant and its parts, so that no peak is lost and parts still add up.
void thin(std::vector<analyzer::rows::Timeline>& timeline, std::size_t most);

// The same for very many rows: those with the largest maximum. Rows of `process` come first and
// keep up to four times as many buckets.
[[nodiscard]] std::vector<analyzer::rows::Timeline> thinned_timelines(
    const std::vector<analyzer::rows::Timeline>& timeline,
    const analyzer::rows::OptionalText& process, std::size_t most);

}  // namespace gpumemtrace::tools
