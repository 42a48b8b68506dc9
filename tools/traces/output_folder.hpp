// SPDX-License-Identifier: Apache-2.0
// Finds out if the folder of the traces lies on another machine. The ring beside a trace is memory
// of the program: while a server does not answer, a thread that writes there stands still.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace gpumemtrace::tools {

// The folder, or the nearest above it that is there: the recorder makes the others.
[[nodiscard]] std::filesystem::path existing_folder(const std::filesystem::path& folder);

// "NFS" for a number of statfs(2) that is a network file system's; empty for others, and for FUSE,
// which can be either.
[[nodiscard]] std::string_view network_file_system_name(std::uint64_t type);

// The same for an existing folder.
[[nodiscard]] std::string_view network_file_system_of(const std::filesystem::path& folder);

}  // namespace gpumemtrace::tools
