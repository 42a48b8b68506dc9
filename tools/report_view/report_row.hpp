// SPDX-License-Identifier: Apache-2.0
// Names of the report's processes and origins, for text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// Names of a traced program need not be UTF-8; other bytes become U+FFFD.
[[nodiscard]] std::string valid_utf8(const std::string& text);

// The program in a process's command line: "train.py" of `python3 -u train.py`,
// "torch.distributed.run" of `python3 -m ...`, "bench" of `/home/me/bench --fast`.
[[nodiscard]] std::string program_name(const analyzer::rows::Process& process);

// The name of a process in texts: "rank 2", or "rank 2 on node-a" if the job ran on several hosts;
// "process 4711" if the process has no rank.
[[nodiscard]] std::string process_name(const analyzer::rows::Report& report,
                                       const std::string& process_id);

}  // namespace gpumemtrace::tools
