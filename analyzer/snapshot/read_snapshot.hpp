// SPDX-License-Identifier: Apache-2.0
// Reads a file with a snapshot of PyTorch into a snapshot's rows.
#pragma once

#include <filesystem>

#include "analyzer/snapshot/snapshot.hpp"

namespace gpumemtrace::analyzer::snapshot {

// Reads a snapshot that Python's pickler (protocols 2 to 5) or PyTorch's C++ wrote, also packed by
// gzip or zstd. Nothing in the file is executed. The memory used is proportional to the file's
// size, and far below it if the file has a history. Throws InputError for a file that cannot be
// opened or is no such snapshot; the message names the first opcode that does not fit and its
// offset.
[[nodiscard]] Snapshot read_snapshot(const std::filesystem::path& path);

}  // namespace gpumemtrace::analyzer::snapshot
