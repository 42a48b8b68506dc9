// SPDX-License-Identifier: Apache-2.0
// Explains why a program that ran has left no trace.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpumemtrace::tools {

// The loader's treatment of LD_PRELOAD when it starts a file.
enum class Preloading {
  kWorks,
  kNotAnExecutable,    // no ELF file: a script, or not readable
  kStaticallyLinked,   // no dynamic loader runs
  kOtherArchitecture,  // 32 bits, or another processor
  kOtherLibc,          // its loader is not glibc's
  kAddressSanitizer,   // works if AddressSanitizer's runtime is preloaded before our library
  kPrivileged,         // setuid, setgid or file capabilities: the loader drops LD_PRELOAD
};

[[nodiscard]] Preloading examine_executable(const std::filesystem::path& file);

// The reason why no trace can be written in a folder; empty if there is none to be seen.
[[nodiscard]] std::string why_unwritable(const std::filesystem::path& folder);

// One sentence: the reason that the files and words of the command show, else that no process used
// CUDA memory.
[[nodiscard]] std::string why_untraced(const std::vector<std::string>& command);

}  // namespace gpumemtrace::tools
