// SPDX-License-Identifier: Apache-2.0
// Reduces the timelines of memory to fewer buckets.
#pragma once

#include <cstddef>
#include <vector>

#include "analyzer/rows/time_rows.hpp"

namespace gpumemtrace::tools {

// The most buckets of a timeline such that the page can decode `rows` timelines at once.
[[nodiscard]] std::size_t most_buckets_of(std::size_t rows);

// Merges adjacent buckets until no timeline has more than `most`. A merged bucket keeps the larger
// maximum with its time and parts, so that no peak is lost and the parts still add up to it.
void thin(std::vector<analyzer::rows::Timeline>& timeline, std::size_t most);

// Thins the timelines, and if there are very many, keeps only those with the largest maximum. Those
// of `process` come first and keep up to four times as many buckets.
[[nodiscard]] std::vector<analyzer::rows::Timeline> thinned_timelines(
    const std::vector<analyzer::rows::Timeline>& timeline,
    const analyzer::rows::OptionalText& process, std::size_t most);

}  // namespace gpumemtrace::tools
