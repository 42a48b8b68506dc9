// SPDX-License-Identifier: Apache-2.0
// Files of the source tree that tests read.
#pragma once

#include <string>

namespace gpumemtrace::tests {

// The absolute path of a file; `path` is relative to the source tree's top folder.
[[nodiscard]] std::string source_file(const std::string& path);

}  // namespace gpumemtrace::tests
