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

// The places to search for the names of native code.
struct SymbolOptions {
  bool enabled = true;
  std::vector<std::filesystem::path> folders;    // to look for files in
  std::vector<std::filesystem::path> side_cars;  // written by `gpumemtrace symbolize`
  bool use_debuginfod = false;
};

// A file of machine code or of debug information, opened to read names from it.
//
// A function of the ELF symbol table. `name` lives as long as the file, in mangled form as it
// stands there.
struct ElfFunction {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;  // 0 = not known
  const char* name = nullptr;
  std::uint8_t rank = 0;  // among names of one address the highest is the best
};

// - The file's content is not trusted: anything wrong in it reads as absent.
// - Only regular files are opened, never pipes or devices.
class ElfFile {
 public:
  // nullptr if there is no such file or it is no ELF file.
  [[nodiscard]] static std::unique_ptr<ElfFile> open(const std::filesystem::path& path);
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  // The bytes of the build-id note; empty if the file has none.
  [[nodiscard]] std::string build_id() const;
  // The name of the file that holds this file's debug information, or empty.
  [[nodiscard]] std::string debug_link() const;
  // Adds the functions of .symtab, .dynsym and of the compressed table in .gnu_debugdata.
  void add_functions(std::vector<ElfFunction>& functions);
  // nullptr if the file has no DWARF.
  [[nodiscard]] Dwarf* dwarf();

 private:
  ElfFile() = default;
  static std::unique_ptr<ElfFile> from_memory(std::string image);
  [[nodiscard]] Elf_Scn* find_section(const char* name) const;
  // The file inside .gnu_debugdata; nullptr if there is none.
  [[nodiscard]] std::unique_ptr<ElfFile> unpack_mini_debug_info() const;

  int file_ = -1;
  Elf* elf_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  std::string image_;                    // of a file that lives in memory
  std::unique_ptr<ElfFile> mini_debug_;  // the names of its functions are in use
};

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
