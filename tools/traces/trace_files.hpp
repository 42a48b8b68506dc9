// SPDX-License-Identifier: Apache-2.0
// Finds the traces that a run has just written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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

}  // namespace gpumemtrace::tools
