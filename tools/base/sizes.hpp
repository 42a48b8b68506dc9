// SPDX-License-Identifier: Apache-2.0
// Sizes, counts and times as people write and read them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/text/amounts.hpp"

namespace gpumemtrace::tools {

using analyzer::count_of;
using analyzer::duration_text;
using analyzer::format_count;
using analyzer::size_text;

// "2GiB", "2GB", "512 KiB", "1.5GiB" or plain bytes. Empty if the text is no size, or one that
// does not fit.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);

// The error in a text that is to be a size, and the right form; empty if there is none.
[[nodiscard]] std::string size_error(std::string_view text);

// "12.4s", "350ms", "1.5us", "120ns", "2min", "1h" or plain nanoseconds ("1.5": seconds), as
// a whole number of nanoseconds. Empty if the text is no such time, has digits below a nanosecond,
// or does not fit.
[[nodiscard]] std::optional<std::uint64_t> parse_time(std::string_view text);

// The error in a text that is to be a time; empty if there is none.
[[nodiscard]] std::string time_error(const std::string& text);

// "20%" or "0.2": 0 to 1 and, in percent, 0 to 100. Empty for anything else.
[[nodiscard]] std::optional<double> parse_share(std::string_view text);

// A whole number without sign. Empty for anything else.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

// The error in a text that is to be such a number; empty if there is none.
[[nodiscard]] std::string number_error(const std::string& text);

// Bytes by the name of their holder: a category, a line, a layer.
using BytesByName = std::map<std::string, std::uint64_t>;

struct NamedBytes {
  std::string name;
  std::uint64_t bytes = 0;
};

// Equal numbers are sorted by name.
[[nodiscard]] std::vector<NamedBytes> largest_first(const BytesByName& sums);

}  // namespace gpumemtrace::tools
