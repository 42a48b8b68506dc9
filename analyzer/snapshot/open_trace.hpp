// SPDX-License-Identifier: Apache-2.0
// Opens a snapshot of PyTorch where a trace may stand: its records are written as a trace into
// memory, and everything behind reads that.
#pragma once

#include <filesystem>
#include <memory>

#include "analyzer/snapshot/snapshot.hpp"
#include "trace/own_descriptor.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer::snapshot {

// The snapshot as a trace, in a file in memory. Throws std::system_error if there is no room.
[[nodiscard]] trace::OwnDescriptor make_trace(const Snapshot& snapshot);

// A trace, or a snapshot, which is recognized by its first bytes. Throws trace::TraceError.
[[nodiscard]] std::unique_ptr<trace::TraceFile> open_trace(const std::filesystem::path& path);

}  // namespace gpumemtrace::analyzer::snapshot
