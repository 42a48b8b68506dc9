// SPDX-License-Identifier: Apache-2.0
// Single allocations for the page: the largest one by one, and the live ones of one time by line.
#pragma once

#include <cstddef>

#include "tools/page/page_rows.hpp"

namespace gpumemtrace::tools {

// The result's `largest_blocks` are the `most` largest of the report. `held` has the blocks that
// were live at the requested time, summed by origin and category; rows beyond the `most` largest
// are one row with the owner "other" for each process, device and level. `segments` has all of the
// report, which are few.
[[nodiscard]] PageBlocks blocks_for_page(const rows::Report& report, std::size_t most);

}  // namespace gpumemtrace::tools
