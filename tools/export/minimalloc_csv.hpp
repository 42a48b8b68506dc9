// SPDX-License-Identifier: Apache-2.0
// Lives of blocks as a packing problem: github.com/google/minimalloc and others that read its
// files.
#pragma once

#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// Lines `id,lower,upper,size`: a block lives from `lower` until before `upper`, in nanoseconds of
// the job; sizes are bytes. The blocks are those of `level` on a device; blocks that live to the
// end end behind the last of all times. `report.allocations` is there. Throws Failure if the blocks
// are of several processes or devices, or there are none.
[[nodiscard]] std::string minimalloc_csv(const analyzer::rows::Report& report,
                                         analyzer::Level level);

}  // namespace gpumemtrace::tools
