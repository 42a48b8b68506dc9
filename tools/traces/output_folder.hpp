// SPDX-License-Identifier: Apache-2.0
// Finds out if the folder of the traces is on a network file system. The ring beside a trace is
// mapped into the program: while the file server does not answer, a thread that writes to the ring
// stands still.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace gpumemtrace::tools {

// The folder, or its nearest parent that exists: the recording library creates missing folders.
[[nodiscard]] std::filesystem::path existing_folder(const std::filesystem::path& folder);

// The name of the network file system with that magic number of statfs(2), such as "NFS"; empty for
// local file systems, and for FUSE, which can be either.
[[nodiscard]] std::string_view network_file_system_name(std::uint64_t type);

// The name of the network file system on which an existing folder is; empty if it is on none.
[[nodiscard]] std::string_view network_file_system_of(const std::filesystem::path& folder);

}  // namespace gpumemtrace::tools
