// SPDX-License-Identifier: Apache-2.0
// Finds the traces that a run has just written, and records in them how a process ended, which only
// its parent learns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/launch/child_process.hpp"

namespace gpumemtrace::tools {

struct WrittenTrace {
  std::filesystem::path path;
  std::uint32_t process_id = 0;
  std::uint64_t start_realtime_ns = 0;
  std::uint64_t bytes = 0;
};

// Traces whose process started recording at or after `since_realtime_ns`, in the places that
// `pattern` can reach (empty: the default names in and below the current folder), sorted by path.
// Another job that writes to the same place at the same time is counted too.
[[nodiscard]] std::vector<WrittenTrace> find_written_traces(const std::string& pattern,
                                                            std::uint64_t since_realtime_ns);

// The name of a trace's ring file.
[[nodiscard]] std::filesystem::path ring_of(const std::filesystem::path& trace);
// The bytes of a trace and its ring on disk.
[[nodiscard]] std::uint64_t bytes_of(const std::filesystem::path& trace);

// Records in the ring of the child's last trace which signal ended the child, or that it exited: a
// trace does not show an exit by the system call. A ring that cannot be written keeps its trace as
// it is.
void record_end(const std::vector<WrittenTrace>& traces, const ChildEnd& end);

// Removes the rings whose records are all in the packed traces. The rings of processes that still
// run, were killed or lost records stay.
void remove_spent_rings(std::vector<WrittenTrace>& traces);

}  // namespace gpumemtrace::tools
