// SPDX-License-Identifier: Apache-2.0
// Bytes by stack for the page's icicles.
#pragma once

#include <cstddef>

#include "tools/page/page_rows.hpp"

namespace gpumemtrace::tools {

// `costs`: the `most` rows of the report's costs that are largest by any measure, the others summed
// into one row with the owner "other" for each process and level. `frames`: each frame once.
// `stacks`: those of `costs` and of the report's findings, peaks, blocks and failures.
[[nodiscard]] PageCosts costs_with_stacks(const rows::Report& report, std::size_t most);

}  // namespace gpumemtrace::tools
