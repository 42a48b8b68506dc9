// SPDX-License-Identifier: Apache-2.0
// Writes the output of a command: to a file, or to stdout.
#pragma once

#include <filesystem>
#include <string>

namespace gpumemtrace::tools {

// True if the path means stdout: it is empty or "-".
[[nodiscard]] bool is_stdout(const std::filesystem::path& path);

// Writes to `path`, or to stdout if is_stdout(path). A file gets its name when it is complete, so
// that no reader sees half of it; a device or a pipe is written directly. A link is replaced, not
// followed. Throws Failure.
void write_output(const std::filesystem::path& path, const std::string& content);

// Writes a file that only its owner can read, as traces are. On return, the file and its name have
// been synced to disk. Throws Failure.
void write_private_durably(const std::filesystem::path& path, const std::string& content);

// Appends to a file of our own, which is made if it is not there. Throws Failure.
void append_output(const std::filesystem::path& path, const std::string& content);

}  // namespace gpumemtrace::tools
