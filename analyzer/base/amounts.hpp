// SPDX-License-Identifier: Apache-2.0
// Sizes and times in words, the same in findings, summary and verdict.
#pragma once

#include <cstdint>
#include <string>

namespace gpumemtrace::analyzer {

// 73098330112 -> "68.1 GiB"; below 1 KiB "512 bytes".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

// 41200000000 -> "41.20 s"; the unit follows the size: ns, us, ms, s, min, h.
[[nodiscard]] std::string duration_text(std::uint64_t duration_ns);

}  // namespace gpumemtrace::analyzer
