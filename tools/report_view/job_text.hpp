// SPDX-License-Identifier: Apache-2.0
// The program of a job, when it started and how long it ran, for a title or the first lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// True if every input of the report is a memory snapshot of PyTorch, so no trace.
[[nodiscard]] bool is_of_snapshots(const analyzer::rows::Report& report);

// The command of the job's first process, with its program's name; "..." stands for arguments that
// make the text too long.
[[nodiscard]] std::string job_command(const analyzer::rows::Report& report);

// The earliest known start of a process, which is time 0 of the report. Nothing if no process has a
// known start.
[[nodiscard]] std::optional<std::uint64_t> job_start_unix_ns(const analyzer::rows::Report& report);

// The time from the start of the job to the end of its last trace. A process without a known start
// counts as started with the job.
[[nodiscard]] std::uint64_t job_length_ns(const analyzer::rows::Report& report);

// "Times of 4 hosts agree to within 24 ms, by their kernels' bounds.", or why the clocks'
// difference is not known; empty if all processes ran on one host.
[[nodiscard]] std::string host_clocks_text(const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
