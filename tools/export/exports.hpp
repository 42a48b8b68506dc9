// SPDX-License-Identifier: Apache-2.0
// Writes a job's report in the formats of other viewers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "analyzer/rows/report.hpp"
#include "tools/export/stack_costs.hpp"

namespace gpumemtrace::tools {

// Collapsed stacks as Brendan Gregg defined them. One line a stack: the frames from the outermost
// in, joined by semicolons, then a space and the bytes. Sorted; empty if no stack has the cost.
[[nodiscard]] std::string collapsed_stacks(const analyzer::rows::Report& report,
                                           const StackExport& what);

// A file of speedscope.app: one sampled profile a process, weights in bytes.
[[nodiscard]] std::string speedscope_profile(const analyzer::rows::Report& report,
                                             const StackExport& what);

// A flame graph as an SVG picture without scripts: outermost frames at the top, widths in bytes.
// Each box shows its name and bytes as a tooltip. Boxes narrower than a tenth of a pixel are left
// out.
[[nodiscard]] std::string flame_graph_svg(const analyzer::rows::Report& report,
                                          const StackExport& what);

// The pickle that torch.cuda.memory._dump_snapshot() would have written, as far as the report has
// its data:
// - With Level::kFramework: the framework's blocks, in the segments that contain them. With
//   kDriver: each allocation of device memory as a segment of its own, whichever code made it.
// - `segments` has the sizes of blocks, which can be larger than the requested sizes; device_traces
//   has the requested ones, if known. A stream is PyTorch's own number of it, 0 if unknown.
// - A free has the frames of the call that freed. If the snapshot has no event of the allocation,
//   because it lists only later ones, the free has the allocation's frames.
// `report` must have its allocations[]; `process` is the id of one of its processes. The report's
// times count from `job_start_unix_ns`.
[[nodiscard]] std::string memory_viz_snapshot(const analyzer::rows::Report& report,
                                              const std::string& process, analyzer::Level level,
                                              std::uint64_t job_start_unix_ns);

// The folder for the tables of an export.
struct ParquetTarget {
  std::filesystem::path folder;
  std::string job;     // the job's name, if the folder can hold other jobs; else empty
  bool force = false;  // replaces all files that earlier exports left in the folder
};

// Throws Failure if the folder may not be written: it is a file, it holds an export that would be
// neither replaced nor joined, or it holds a file that no export made. Called before the work.
void require_parquet_folder(const ParquetTarget& target);

// Writes the files that parquet_tables.hpp describes. A new folder gets its final name when it is
// complete; a job that is added to a folder comes in file by file. Files that no export made are
// never removed. Throws Failure, and leaves no partial export. `selection` is the part of the job
// that `report` has.
void write_parquet_folder(const analyzer::rows::Report& report, std::string_view selection,
                          const ParquetTarget& target);

// A trace for Perfetto. For each process: counters of each level and device, of the reserved bytes,
// and of each category or owner (timeline[]); steps and ranges as slices; marks and failed requests
// as instants; the memory at each peak as a heap dump by stack. The report's times count from
// `job_start_unix_ns`. Writes the process `only` alone, or all processes if it is nullptr.
[[nodiscard]] std::string perfetto_trace(const analyzer::rows::Report& report,
                                         std::uint64_t job_start_unix_ns,
                                         const analyzer::rows::Process* only = nullptr);

// A tar archive that Perfetto opens as one trace: a file as of perfetto_trace() for each process,
// and a manifest that names the host of each file.
[[nodiscard]] std::string perfetto_archive(const analyzer::rows::Report& report,
                                           std::uint64_t job_start_unix_ns);

// A profile for pprof, compressed by gzip as the format requires. It has every measure of
// kCostMeasures by stack, in bytes; pprof shows `what.measure` first. A label names the process of
// a sample.
[[nodiscard]] std::string pprof_profile(const analyzer::rows::Report& report,
                                        const StackExport& what);

// The content of an SQLite file. docs/exports.md lists tables and columns. Times are nanoseconds
// since the start of the job, sizes bytes; unknown values are NULL. Views have the names and
// columns of Nsight Systems' exports, so that queries for these work here. `report` must have its
// allocations[]; `selection` is the part of the job that `report` has.
[[nodiscard]] std::string sqlite_database(const analyzer::rows::Report& report,
                                          std::string_view selection);

}  // namespace gpumemtrace::tools
