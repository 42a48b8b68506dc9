// SPDX-License-Identifier: Apache-2.0
// Finds the files that hold the names of a module's code.
#pragma once

#include <elfutils/libdw.h>
#include <libelf.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace gpumemtrace::analyzer {

// The options for finding the names of native code.
struct SymbolOptions {
  bool enabled = true;
  std::vector<std::filesystem::path> folders;    // folders in which files are looked for
  std::vector<std::filesystem::path> side_cars;  // files written by `gpumemtrace symbolize`
  bool use_debuginfod = false;
};

// A function of an ELF symbol table. `name` is mangled, and points into the file, so it is valid as
// long as the ElfFile.
struct ElfFunction {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;  // size of the function's code; 0 = not known
  const char* name = nullptr;
  std::uint8_t rank = 0;  // of several names of one address, that with the highest rank is the best
};

// - A file of machine code or of debug information. Its content is not trusted: anything wrong in
//   it counts as absent.
// - Only regular files are opened, never pipes or devices.
class ElfFile {
 public:
  // Opens a file; nullptr if it does not exist or is no ELF file.
  [[nodiscard]] static std::unique_ptr<ElfFile> open(const std::filesystem::path& path);
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  // The bytes of the build-id note; empty if the file has none.
  [[nodiscard]] std::string build_id() const;
  // The name of the file with the debug information for this file; empty if there is none.
  [[nodiscard]] std::string debug_link() const;
  // Adds the functions of .symtab, .dynsym and of the compressed table in .gnu_debugdata.
  void add_functions(std::vector<ElfFunction>& functions);
  // The file's DWARF debug information; nullptr if it has none.
  [[nodiscard]] Dwarf* dwarf();

 private:
  ElfFile() = default;
  static std::unique_ptr<ElfFile> from_memory(std::string image);
  [[nodiscard]] Elf_Scn* find_section(const char* name) const;
  // The ELF file that .gnu_debugdata contains, decompressed; nullptr if there is none.
  [[nodiscard]] std::unique_ptr<ElfFile> unpack_mini_debug_info() const;

  int file_ = -1;
  Elf* elf_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  std::string image_;                    // the content of a file that is in memory
  std::unique_ptr<ElfFile> mini_debug_;  // kept open, because the names of its functions are used
};

// A file in the version that the process had loaded.
struct ModuleIdentity {
  std::string path;
  std::string build_id;  // raw bytes; empty = the file had none or the trace does not tell

  friend auto operator<=>(const ModuleIdentity&, const ModuleIdentity&) = default;
};

// Bytes in hexadecimal, as build-ids are written.
[[nodiscard]] std::string hexadecimal(const std::string& bytes);

struct FoundFiles {
  // Files with code first, then separate debug information; only files with the module's build-id.
  std::vector<std::unique_ptr<ElfFile>> files;
  bool another_file_is_there = false;  // a file with another build-id is at the recorded path
};

// Finds the files of a module. Searches in this order: the recorded path; the search folders, by
// build-id (.build-id/ab/cdef and .build-id/ab/cdef.debug), by the whole path below them, and by
// the file's name; the places of the system's debug packages; a debuginfod server, if the user
// asked for that.
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
