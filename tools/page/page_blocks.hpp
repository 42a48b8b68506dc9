// SPDX-License-Identifier: Apache-2.0
// Single allocations for the page: the largest one by one, and the live ones of one time by line.
#pragma once

#include <cstddef>

#include "tools/page/page_rows.hpp"

namespace gpumemtrace::tools {

// `largest_blocks`: the `most` largest of the report's. `held`: the rows of blocks[] for the
// requested time, summed by stack and category; if there are more than `most`, the smaller ones are
// one row with the owner "other" for each process, device and level. `segments`: all, which are
// few.
[[nodiscard]] PageBlocks blocks_for_page(const rows::Report& report, std::size_t most);

}  // namespace gpumemtrace::tools
