// SPDX-License-Identifier: Apache-2.0
// Opens a snapshot of PyTorch in place of a trace: its records are written as a trace into memory,
// which all further code reads like any trace.
#pragma once

#include <filesystem>
#include <memory>

#include "analyzer/snapshot/snapshot.hpp"
#include "trace/own_descriptor.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer::snapshot {

// Writes the snapshot as a trace into a file in memory. Throws std::system_error if there is no
// room.
[[nodiscard]] trace::OwnDescriptor make_trace(const Snapshot& snapshot);

// Opens a trace or a snapshot, which is recognized by its first bytes. Throws trace::TraceError.
[[nodiscard]] std::unique_ptr<trace::TraceFile> open_trace(const std::filesystem::path& path);

}  // namespace gpumemtrace::analyzer::snapshot
