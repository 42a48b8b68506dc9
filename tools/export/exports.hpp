// SPDX-License-Identifier: Apache-2.0
// The job in the formats of other viewers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "analyzer/rows/report.hpp"
#include "tools/export/stack_costs.hpp"

namespace gpumemtrace::tools {

// One line a stack: frames from the outermost in, joined by semicolons, a space and the bytes
// (Brendan Gregg's collapsed stacks). Sorted; empty if nothing has that cost.
[[nodiscard]] std::string collapsed_stacks(const analyzer::rows::Report& report,
                                           const StackExport& what);

// A file of speedscope.app: one sampled profile a process, weights in bytes.
[[nodiscard]] std::string speedscope_profile(const analyzer::rows::Report& report,
                                             const StackExport& what);

// A picture: outermost frames at the top, widths in bytes; each box says its name and bytes where
// the mouse rests. Boxes under a tenth of a pixel are left out. Without script.
[[nodiscard]] std::string flame_graph_svg(const analyzer::rows::Report& report,
                                          const StackExport& what);

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

// The folder for the tables of an export.
struct ParquetTarget {
  std::filesystem::path folder;
  std::string job;     // its name, if the folder can hold other jobs; else empty
  bool force = false;  // replaces all that earlier exports left there
};

// Throws Failure if the folder may not be written: it is a file, it holds an export that would be
// neither replaced nor joined, or it holds a file that no export made. Called before the work.
void require_parquet_folder(const ParquetTarget& target);

// The files of parquet_tables.hpp. A folder that is replaced gets its name when it is whole; a job
// that is added to one comes in file by file. Files that an export did not make are never removed.
// Throws Failure, and leaves no half export.
// `selection` is the part of the job that `report` has.
void write_parquet_folder(const analyzer::rows::Report& report, std::string_view selection,
                          const ParquetTarget& target);

// For each process: a counter for each level and device, the reserved bytes, and one for each
// category or owner (timeline[]); steps and ranges as slices; marks and failed requests as
// instants; the holders at each peak as a heap dump by stack. The report's times begin at
// `job_start_unix_ns`. With `only` that process alone.
[[nodiscard]] std::string perfetto_trace(const analyzer::rows::Report& report,
                                         std::uint64_t job_start_unix_ns,
                                         const analyzer::rows::Process* only = nullptr);

// A tar archive that Perfetto opens as one trace: the same, a file for each process, with a
// manifest that says which host is whose.
[[nodiscard]] std::string perfetto_archive(const analyzer::rows::Report& report,
                                           std::uint64_t job_start_unix_ns);

// Every measure of kCostMeasures by stack, in bytes; `what.measure` is shown first. A label has the
// process of a sample. Compressed by gzip, as the format requires.
[[nodiscard]] std::string pprof_profile(const analyzer::rows::Report& report,
                                        const StackExport& what);

// The content of the file. Tables and columns: docs/exports.md. Times are nanoseconds since the
// start of the job, sizes bytes; unknown values are NULL. Views have the names and columns of an
// export of Nsight Systems, so that its queries work here. `report` has its allocations;
// `selection` is the part of the job that it is.
[[nodiscard]] std::string sqlite_database(const analyzer::rows::Report& report,
                                          std::string_view selection);

}  // namespace gpumemtrace::tools
