// Sizes, counts and times as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpumemtrace::tools {

// "2GiB", "2GB", "512 KiB", "1.5GiB" or plain bytes. Empty where the text is no size, or one that
// does not fit.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);

// "20%" or "0.2": 0 to 1 and, in percent, 0 to 100. Empty for anything else.
[[nodiscard]] std::optional<double> parse_share(std::string_view text);

// A whole number without sign. Empty for anything else.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

// 73098330112 -> "68.1 GiB"; below 1 KiB "512 bytes".
std::string format_size(std::uint64_t bytes);

// 73098330112 -> "73,098,330,112".
std::string format_count(std::uint64_t count);

// 41200000000 -> "41.20 s"; the unit follows the size: ns, us, ms, s, min, h.
std::string format_duration(std::uint64_t duration_ns);

}  // namespace gpumemtrace::tools
