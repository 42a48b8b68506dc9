// SPDX-License-Identifier: Apache-2.0
// Messages of the program itself. They go to stderr, so that stdout has only the requested output.
#pragma once

#include <string>

namespace gpumemtrace::tools {

// Each function prints one line that begins with the program's name.
void say(const std::string& message);
void warn(const std::string& message);
void report_failure(const std::string& message);

}  // namespace gpumemtrace::tools
