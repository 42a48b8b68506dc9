// SPDX-License-Identifier: Apache-2.0
// The program of a job and how long it ran, for a title or the first lines.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// The command of its first process, the program by its name; "..." stands for arguments that make
// it too long.
[[nodiscard]] std::string job_command(const analyzer::rows::Report& report);

// From the start of the earliest process, as all times of the report, to the end of the last.
[[nodiscard]] std::uint64_t job_length_ns(const analyzer::rows::Report& report);

}  // namespace gpumemtrace::tools
