// SPDX-License-Identifier: Apache-2.0
// Memory over time in fewer buckets.
#pragma once

#include <cstddef>

#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {

// The most buckets of a row such that all of them together can be decoded at once.
[[nodiscard]] std::size_t most_buckets_of(const Json& timeline);

// Rows of `timeline` with neighbours merged until none has more than `most` buckets: the largest
// maximum stays, with its instant and its parts, so that no peak is lost and parts still add up.
[[nodiscard]] Json thinned_timeline(const Json& timeline, std::size_t most);

// The same for very many rows: those with the largest maximum. Rows of `process` come first and
// keep up to four times as many buckets.
[[nodiscard]] Json thinned_timelines(const Json& timeline, const Json& process, std::size_t most);

}  // namespace gpumemtrace::tools
