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

// Parses a size: "2GiB", "2GB", "512 KiB", "1.5GiB" or plain bytes. Empty if the text is no size,
// or if it is too large: from 2^64 on for plain bytes, from 2^63 on with a unit.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);

// The error in a text that is to be a size, and the right form; empty if there is none.
[[nodiscard]] std::string size_error(std::string_view text);

// Parses a time to nanoseconds: "12.4s", "350ms", "1.5us", "120ns", "2min", "1h", plain
// nanoseconds, or "1.5" for seconds. Empty if the text is no such time, has digits below a
// nanosecond, or does not fit.
[[nodiscard]] std::optional<std::uint64_t> parse_time(std::string_view text);

// The error in a text that is to be a time; empty if there is none.
[[nodiscard]] std::string time_error(const std::string& text);

// Parses a share: "20%" or "0.2", from 0 to 1 or from 0 to 100 in percent. Empty for anything else.
[[nodiscard]] std::optional<double> parse_share(std::string_view text);

// Parses a whole number without sign. Empty for anything else.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

// An error message for a text that is no whole number without sign; empty if it is one.
[[nodiscard]] std::string number_error(const std::string& text);

// Bytes by the name of their holder: a category, a line, a layer.
using BytesByName = std::map<std::string, std::uint64_t>;

struct NamedBytes {
  std::string name;
  std::uint64_t bytes = 0;
};

// Sorted by bytes, largest first; equal numbers are sorted by name.
[[nodiscard]] std::vector<NamedBytes> largest_first(const BytesByName& sums);

}  // namespace gpumemtrace::tools
