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
  std::string_view name;  // the measure's name on the command line
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
  kAll,    // all functions
  kUsers,  // functions in the user's files only
  kLayers  // the layers of a model
};

struct StackExport {
  CostMeasure measure = kCostMeasures[0];
  // The memory level to count, as the report names it. If empty: leaked bytes count on all levels
  // except the framework's; other measures count the framework's blocks if there are any, else all
  // other levels. Copied bytes have no level.
  std::string level;
  FrameKind frames = FrameKind::kAll;
};

struct NamedFrame {
  std::string name;
  std::string file;  // source file; empty: not known
  std::uint64_t line = 0;

  friend auto operator<=>(const NamedFrame&, const NamedFrame&) = default;
};
using NamedStack = std::vector<NamedFrame>;  // frames, outermost first
using BytesByStack = std::map<NamedStack, std::uint64_t>;

// The bytes of one process by stack; empty if `what` selects no bytes.
[[nodiscard]] BytesByStack bytes_by_stack(const analyzer::rows::Report& report,
                                          const StackExport& what, const std::string& process);
// The bytes of all processes by stack; if there are several, the outermost frame names the process.
[[nodiscard]] BytesByStack bytes_by_stack(const analyzer::rows::Report& report,
                                          const StackExport& what);

// The process as a frame's name: "process 4711 (rank 2)".
[[nodiscard]] std::string process_title(const analyzer::rows::Process& process);

}  // namespace gpumemtrace::tools
