// SPDX-License-Identifier: Apache-2.0
// Bytes by stack, as flame graphs and profiles want them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// The meaning of a frame's width.
struct CostMeasure {
  std::string_view name;  // on the command line
  std::uint64_t analyzer::rows::Cost::*bytes;
};
inline constexpr std::array kCostMeasures = {
    CostMeasure{"peak", &analyzer::rows::Cost::peak_bytes},
    CostMeasure{"leaked", &analyzer::rows::Cost::leaked_bytes},
    CostMeasure{"allocated", &analyzer::rows::Cost::allocated_bytes},
    CostMeasure{"copied", &analyzer::rows::Cost::copied_bytes},
};

// The kind of frames that a stack is made of.
enum class FrameKind : std::uint8_t {
  kAll,    // functions
  kUsers,  // those in files of the user alone
  kLayers  // the layers of a model
};

struct StackExport {
  CostMeasure measure = kCostMeasures[0];
  // One of the report's levels. Empty: for leaked bytes all but the framework's; for others the
  // framework's blocks if there are any, else the memory of all other levels. Copies have none.
  std::string level;
  FrameKind frames = FrameKind::kAll;
};

struct NamedFrame {
  std::string name;
  std::string file;  // empty = not known
  std::uint64_t line = 0;

  friend auto operator<=>(const NamedFrame&, const NamedFrame&) = default;
};
using NamedStack = std::vector<NamedFrame>;  // outermost first
using BytesByStack = std::map<NamedStack, std::uint64_t>;

// For one process. Empty if nothing has that cost.
[[nodiscard]] BytesByStack bytes_by_stack(const analyzer::rows::Report& report,
                                          const StackExport& what, const std::string& process);
// For all processes; if there are several, each is a frame around its stacks.
[[nodiscard]] BytesByStack bytes_by_stack(const analyzer::rows::Report& report,
                                          const StackExport& what);

// "process 4711 (rank 2)"
[[nodiscard]] std::string process_title(const analyzer::rows::Process& process);

}  // namespace gpumemtrace::tools
