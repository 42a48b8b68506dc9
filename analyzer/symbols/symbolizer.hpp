// SPDX-License-Identifier: Apache-2.0
// Turns addresses in modules into functions, files and lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analyzer/symbols/dwarf_lines.hpp"
#include "analyzer/symbols/symbol_files.hpp"

namespace gpumemtrace::analyzer {

// A side-car: a file with the names of code that `gpumemtrace symbolize` writes, for an analysis on
// a machine that does not have the files with the code.
//
//   {"format": "gpumemtrace-symbols", "version": 1, "modules": [
//     {"build_id": "8a1f...", "path": "/opt/lib/libops.so", "offsets": {
//       "4660": [{"function": "ops::grow(int)", "file": "/src/ops.cpp", "line": 12}, ...]}}]}
//
// An offset is a virtual address of the file, one byte before a return address; its frames stand
// innermost first.
class SideCar {
 public:
  // Adds the names in a side-car file. Throws InputError if the file is missing or no side-car.
  void read(const std::filesystem::path& path);
  [[nodiscard]] std::string text() const;

  // The frames at the offset; nullptr if the offset was never added. Modules are compared by
  // build-id, or by path if they have none.
  [[nodiscard]] const std::vector<SymbolFrame>* find(const ModuleIdentity& module,
                                                     std::uint64_t offset) const;
  const std::vector<SymbolFrame>& add(const ModuleIdentity& module, std::uint64_t offset,
                                      std::vector<SymbolFrame> frames);
  // The number of offsets that were asked for; named_offset_count(): those of them with a known
  // name.
  [[nodiscard]] std::uint64_t offset_count() const;
  [[nodiscard]] std::uint64_t named_offset_count() const;

 private:
  struct Module {
    ModuleIdentity identity;
    std::map<std::uint64_t, std::vector<SymbolFrame>> offsets;
  };
  std::map<std::string, Module> modules_;  // modules by build-id, or by path if they have none
};

// The names of one module: a sorted array of its functions, and its debug information.
class ModuleSymbols {
 public:
  explicit ModuleSymbols(FoundFiles found);

  [[nodiscard]] std::vector<SymbolFrame> frames_at(std::uint64_t offset);

 private:
  // The function at the offset; nullptr if no function in a symbol table contains it.
  [[nodiscard]] const ElfFunction* find_function(std::uint64_t offset) const;

  std::vector<std::unique_ptr<ElfFile>> files_;
  std::vector<ElfFunction> functions_;
  std::unique_ptr<DwarfLines> lines_;
};

// - A module's files are opened when the first of its addresses is looked up; results are kept.
// - Several threads may call frames_at(). The other functions may be called when all these calls
//   are done.
// - Only the constructor throws InputError: for a side-car that cannot be read.
class Symbolizer {
 public:
  explicit Symbolizer(const SymbolOptions& options);

  // The frames at the module's virtual address, innermost function first; empty if no file with the
  // module's build-id names it. For a return address, ask for the byte before it. The result stays
  // valid.
  [[nodiscard]] const std::vector<SymbolFrame>& frames_at(const ModuleIdentity& module,
                                                          std::uint64_t offset);

  // The modules whose file was not found; the value is true if a file of another build is in its
  // place.
  [[nodiscard]] const std::map<ModuleIdentity, bool>& unnamed_modules() const {
    return unnamed_modules_;
  }
  // All names found so far.
  [[nodiscard]] const SideCar& answers() const { return answers_; }

 private:
  [[nodiscard]] std::vector<SymbolFrame> look_up(const ModuleIdentity& module,
                                                 std::uint64_t offset);

  bool enabled_;
  std::mutex mutex_;  // protects all members below
  SymbolFiles files_;
  SideCar names_from_sidecars_;  // names from side-cars
  SideCar answers_;              // names that this object found
  std::map<ModuleIdentity, ModuleSymbols> modules_;
  std::map<ModuleIdentity, bool> unnamed_modules_;
};

}  // namespace gpumemtrace::analyzer
