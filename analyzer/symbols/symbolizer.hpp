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

// Names of code, kept apart from the files that they were read from: `gpumemtrace symbolize` writes
// it, for an analysis on a machine that does not have those files.
//
//   {"format": "gpumemtrace-symbols", "version": 1, "modules": [
//     {"build_id": "8a1f...", "path": "/opt/lib/libops.so", "offsets": {
//       "4660": [{"function": "ops::grow(int)", "file": "/src/ops.cpp", "line": 12}, ...]}}]}
//
// An offset is a virtual address of the file, one byte before a return address; its frames stand
// innermost first.
class SideCar {
 public:
  // Adds what the file holds. Throws InputError if it is missing or no side-car.
  void read(const std::filesystem::path& path);
  [[nodiscard]] std::string text() const;

  // nullptr if nothing is known about the address. Modules are compared by build-id, and by path if
  // they have none.
  [[nodiscard]] const std::vector<SymbolFrame>* find(const ModuleIdentity& module,
                                                     std::uint64_t offset) const;
  const std::vector<SymbolFrame>& add(const ModuleIdentity& module, std::uint64_t offset,
                                      std::vector<SymbolFrame> frames);
  // The number of offsets asked for, and of those with a known name.
  [[nodiscard]] std::uint64_t offset_count() const;
  [[nodiscard]] std::uint64_t named_offset_count() const;

 private:
  struct Module {
    ModuleIdentity identity;
    std::map<std::uint64_t, std::vector<SymbolFrame>> offsets;
  };
  std::map<std::string, Module> modules_;  // by build-id or path
};

// The names of one module: a sorted array of its functions, and its debug information.
class ModuleSymbols {
 public:
  explicit ModuleSymbols(FoundFiles found);

  [[nodiscard]] std::vector<SymbolFrame> frames_at(std::uint64_t offset);

 private:
  // nullptr if the offset lies in no function that a symbol table names.
  [[nodiscard]] const ElfFunction* find_function(std::uint64_t offset) const;

  std::vector<std::unique_ptr<ElfFile>> files_;
  std::vector<ElfFunction> functions_;
  std::unique_ptr<DwarfLines> lines_;
};

// - A module is opened when the first of its addresses is asked for; answers are kept.
// - Several threads may ask for frames. The other questions are for when all of them are done.
// - Throws InputError for a side-car that cannot be read, at construction only.
class Symbolizer {
 public:
  explicit Symbolizer(const SymbolOptions& options);

  // The frames at the module's virtual address, innermost function first; empty if no file of the
  // same build has it. For a return address, ask for the byte before it. The answer stays valid.
  [[nodiscard]] const std::vector<SymbolFrame>& frames_at(const ModuleIdentity& module,
                                                          std::uint64_t offset);

  // Modules whose file was not found: true if another build's file is in its place.
  [[nodiscard]] const std::map<ModuleIdentity, bool>& unnamed_modules() const {
    return unnamed_modules_;
  }
  // All answers so far.
  [[nodiscard]] const SideCar& answers() const { return answers_; }

 private:
  [[nodiscard]] std::vector<SymbolFrame> look_up(const ModuleIdentity& module,
                                                 std::uint64_t offset);

  bool enabled_;
  std::mutex mutex_;  // of all that follows
  SymbolFiles files_;
  SideCar told_;     // by side-cars
  SideCar answers_;  // ours
  std::map<ModuleIdentity, ModuleSymbols> modules_;
  std::map<ModuleIdentity, bool> unnamed_modules_;
};

}  // namespace gpumemtrace::analyzer
