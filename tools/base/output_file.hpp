// SPDX-License-Identifier: Apache-2.0
// Writes the output of a command: to a file, or to stdout.
#pragma once

#include <filesystem>
#include <string>

namespace gpumemtrace::tools {

// True if the path means stdout: it is empty or "-".
[[nodiscard]] bool is_stdout(const std::filesystem::path& path);

// Writes to stdout if is_stdout(path). A file gets its name when it is whole, so that a reader
// never sees half of it; a device or a pipe is written as it is. Follows no link. Throws Failure.
void write_output(const std::filesystem::path& path, const std::string& content);

// A file for its owner alone, as traces are. When it returns, file and name have been synced.
// Throws Failure.
void write_private_durably(const std::filesystem::path& path, const std::string& content);

// Appends to a file of our own, which is made if it is not there. Throws Failure.
void append_output(const std::filesystem::path& path, const std::string& content);

}  // namespace gpumemtrace::tools
