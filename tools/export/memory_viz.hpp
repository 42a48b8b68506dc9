// SPDX-License-Identifier: Apache-2.0
// A snapshot for PyTorch's memory page (pytorch.org/memory_viz) and torch.cuda._memory_viz, drawn
// from the allocations of a process.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// The pickle that torch.cuda.memory._dump_snapshot() would have written, as far as it is known:
// - Level::kFramework: the framework's blocks, in the segments that they lie in; kDriver: each
//   allocation of device memory as a segment of its own, whichever code made it.
// - Sizes are those of the blocks, which can be larger than the requested ones. Streams are not
//   known: all are 0.
// - A free has no frames; if the allocation is older than the history, they are the
//   allocation's.
// `report` has its allocations; `process` is the id of one of its processes. Its times begin at
// `job_start_unix_ns`.
[[nodiscard]] std::string memory_viz_snapshot(const analyzer::rows::Report& report,
                                              const std::string& process, analyzer::Level level,
                                              std::uint64_t job_start_unix_ns);

}  // namespace gpumemtrace::tools
