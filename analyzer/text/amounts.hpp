// SPDX-License-Identifier: Apache-2.0
// Sizes, times and counts in words, the same in findings, summary and verdict.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpumemtrace::analyzer {

// 73098330112 -> "68.1 GiB"; below 1 KiB "512 bytes".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

// 41200000000 -> "41.20 s"; the unit follows the size: ns, us, ms, s, min, h.
[[nodiscard]] std::string duration_text(std::uint64_t duration_ns);

// 73098330112 -> "73,098,330,112".
[[nodiscard]] std::string format_count(std::uint64_t count);

// "1 copy", "1,440 copies".
[[nodiscard]] std::string count_of(std::uint64_t count, std::string_view one,
                                   std::string_view many);

}  // namespace gpumemtrace::analyzer
