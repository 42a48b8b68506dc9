// SPDX-License-Identifier: Apache-2.0
// Finds the files that hold the names of a module's code.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/symbols/elf_file.hpp"

namespace gpumemtrace::analyzer {

// A file in the version that the process had loaded.
struct ModuleIdentity {
  std::string path;
  std::string build_id;  // bytes, empty = it had none or the trace does not tell

  friend auto operator<=>(const ModuleIdentity&, const ModuleIdentity&) = default;
};

// Bytes in hexadecimal, as build-ids are written.
[[nodiscard]] std::string hexadecimal(const std::string& bytes);

struct FoundFiles {
  // Code first, then separate debug information; only files with the module's build-id.
  std::vector<std::unique_ptr<ElfFile>> files;
  bool another_file_is_there = false;  // at the recorded path, with another build-id
};

// Searches in this order: the recorded path; the search folders, by build-id (.build-id/ab/cdef and
// .build-id/ab/cdef.debug), by the whole path below them, and by the file's name; the places of the
// system's debug packages; a debuginfod server, if the user asked for that.
class SymbolFiles {
 public:
  SymbolFiles(std::vector<std::filesystem::path> folders, bool use_debuginfod);

  [[nodiscard]] FoundFiles find(const ModuleIdentity& module) const;

 private:
  [[nodiscard]] std::vector<std::filesystem::path> code_candidates(
      const ModuleIdentity& module) const;
  [[nodiscard]] std::vector<std::filesystem::path> debug_candidates(
      const ModuleIdentity& module, const std::string& debug_link) const;

  std::vector<std::filesystem::path> folders_;
  bool use_debuginfod_;
};

}  // namespace gpumemtrace::analyzer
