// SPDX-License-Identifier: Apache-2.0
// Writes sizes, times and counts for people, the same in findings, summary and verdict.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpumemtrace::analyzer {

// A size: "68.1 GiB" for 73098330112; "512 bytes" below 1 KiB.
[[nodiscard]] std::string size_text(std::uint64_t bytes);

// A duration: "41.20 s" for 41200000000 ns; the unit follows the size: ns, us, ms, s, min, h.
[[nodiscard]] std::string duration_text(std::uint64_t duration_ns);

// A number with separators: "73,098,330,112".
[[nodiscard]] std::string format_count(std::uint64_t count);

// A number with its noun: "1 copy", "1,440 copies".
[[nodiscard]] std::string count_of(std::uint64_t count, std::string_view one,
                                   std::string_view many);

}  // namespace gpumemtrace::analyzer
