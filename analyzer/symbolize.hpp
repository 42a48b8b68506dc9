// SPDX-License-Identifier: Apache-2.0
// Finds the names of all native code that traces mention, for an analysis on another machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "analyzer/base/input_error.hpp"
#include "analyzer/symbols/symbol_files.hpp"

namespace gpumemtrace::analyzer {

struct SymbolizeResult {
  // text of a side-car file, which analyzer/symbols/symbolizer.hpp describes
  std::string side_car;
  std::uint64_t places = 0;  // code addresses that stacks mention
  std::uint64_t named_places = 0;
};

// Throws InputError if an input is missing, unreadable or no trace.
[[nodiscard]] SymbolizeResult symbolize(const std::vector<std::filesystem::path>& inputs,
                                        const SymbolOptions& options);

}  // namespace gpumemtrace::analyzer
