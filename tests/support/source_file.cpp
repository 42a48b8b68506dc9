// SPDX-License-Identifier: Apache-2.0
#include "tests/support/source_file.hpp"

namespace gpumemtrace::tests {

std::string source_file(const std::string& path) { return GPUMEMTRACE_SOURCE_DIR "/" + path; }

}  // namespace gpumemtrace::tests
