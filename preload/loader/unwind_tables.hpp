// SPDX-License-Identifier: Apache-2.0
// Finds the unwind tables of a loaded file. preload/native reads their content.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

// A module's tables in memory. Nothing outside [begin, end), the segment that holds them, is read.
struct UnwindTables {
  const std::uint8_t* header = nullptr;  // PT_GNU_EH_FRAME
  const std::uint8_t* begin = nullptr;
  const std::uint8_t* end = nullptr;
};

}  // namespace gpumemtrace::preload
