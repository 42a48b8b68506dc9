// SPDX-License-Identifier: Apache-2.0
// The output of `--version`.
#pragma once

namespace gpumemtrace::tools {

// Defined in a file that cmake/write_commit.cmake writes at every build: "unknown" without git.
extern const char* const kSourceCommit;

}  // namespace gpumemtrace::tools
