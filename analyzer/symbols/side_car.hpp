// SPDX-License-Identifier: Apache-2.0
// Names of code, kept apart from the files that they were read from: `gpumemtrace symbolize` writes
// it, for an analysis on a machine that does not have those files.
//
//   {"format": "gpumemtrace-symbols", "version": 1, "modules": [
//     {"build_id": "8a1f...", "path": "/opt/lib/libops.so", "offsets": {
//       "4660": [{"function": "ops::grow(int)", "file": "/src/ops.cpp", "line": 12}, ...]}}]}
//
// An offset is a virtual address of the file, one byte before a return address; its frames stand
// innermost first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "analyzer/base/json.hpp"
#include "analyzer/symbols/dwarf_lines.hpp"
#include "analyzer/symbols/symbol_files.hpp"

namespace gpumemtrace::analyzer {

class SideCar {
 public:
  // Adds what the file holds. Throws InputError if it is missing or no side-car.
  void read(const std::filesystem::path& path);
  [[nodiscard]] Json to_json() const;

  // nullptr if nothing is known about the address. Modules are compared by build-id, and by path if
  // they have none.
  [[nodiscard]] const std::vector<SymbolFrame>* find(const ModuleIdentity& module,
                                                     std::uint64_t offset) const;
  const std::vector<SymbolFrame>& add(const ModuleIdentity& module, std::uint64_t offset,
                                      std::vector<SymbolFrame> frames);
  // The number of offsets asked for, and of those with a known name.
  [[nodiscard]] std::uint64_t offsets() const;
  [[nodiscard]] std::uint64_t named_offsets() const;

 private:
  struct Module {
    ModuleIdentity identity;
    std::map<std::uint64_t, std::vector<SymbolFrame>> offsets;
  };
  std::map<std::string, Module> modules_;  // by build-id or path
};

}  // namespace gpumemtrace::analyzer
