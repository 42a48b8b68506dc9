// SPDX-License-Identifier: Apache-2.0
// Writes the id of a trace as text.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <string>

#include "trace/file_layout.hpp"

namespace gpumemtrace::analyzer {

// The id as 32 hexadecimal digits, as partial reports have it.
[[nodiscard]] inline std::string trace_id_text(const trace::TraceId& id) {
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016" PRIx64 "%016" PRIx64, id.high, id.low);
  return digits;
}

}  // namespace gpumemtrace::analyzer
