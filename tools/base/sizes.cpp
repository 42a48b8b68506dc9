// SPDX-License-Identifier: Apache-2.0
#include "tools/base/sizes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>

namespace gpumemtrace::tools {
namespace {

struct SizeUnit {
  std::string_view name;  // the unit's name in lower case
  double bytes;
};

constexpr double kKibi = 1024.0;
constexpr auto kSizeUnits = std::to_array<SizeUnit>({
    {"", 1.0},
    {"b", 1.0},
    {"bytes", 1.0},
    {"kib", kKibi},
    {"kb", 1e3},
    {"mib", kKibi* kKibi},
    {"mb", 1e6},
    {"gib", kKibi* kKibi* kKibi},
    {"gb", 1e9},
    {"tib", kKibi* kKibi* kKibi* kKibi},
    {"tb", 1e12},
});

struct TimeUnit {
  std::string_view name;
  std::uint64_t ns;
};

constexpr auto kTimeUnits = std::to_array<TimeUnit>({
    {"", 1},
    {"ns", 1},
    {"us", 1'000},
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"min", 60'000'000'000},
    {"h", 3'600'000'000'000},
});

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return lower;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  text = without_spaces(text);
  const std::size_t number_length = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, number_length);
  const std::string unit_name = to_lower(without_spaces(text.substr(number_length)));
  const auto unit = std::ranges::find(kSizeUnits, unit_name, &SizeUnit::name);
  if (number.empty() || unit == kSizeUnits.end()) return std::nullopt;

  // A double would round whole numbers above 2^53.
  if (const auto whole = parse_number(number); whole && unit->bytes == 1.0) return whole;

  const char* const end = number.data() + number.size();
  double value = 0;
  const auto [value_end, value_error] = std::from_chars(number.data(), end, value);
  if (value_error != std::errc() || value_end != end) return std::nullopt;
  const double bytes = value * unit->bytes;
  // Sizes with a unit must be below 2^63, although the result could hold almost 2^64.
  if (bytes >= 0x1p63 || bytes != std::floor(bytes)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::optional<std::uint64_t> parse_time(std::string_view text) {
  text = without_spaces(text);
  const std::size_t number_length = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view unit_name = without_spaces(text.substr(number_length));
  const std::string_view number = text.substr(0, number_length);
  // A whole number without a unit is nanoseconds, as in a report; one with a point is seconds.
  const bool is_seconds = unit_name.empty() && number.find('.') != std::string_view::npos;
  const auto unit = std::ranges::find(kTimeUnits, is_seconds ? std::string_view("s") : unit_name,
                                      &TimeUnit::name);
  if (unit == kTimeUnits.end()) return std::nullopt;
  const std::size_t dot = std::min(number.find('.'), number.size());
  const auto whole = parse_number(number.substr(0, dot));
  constexpr std::uint64_t kMostNs = std::uint64_t{1} << 62;
  if (!whole || *whole > kMostNs / unit->ns) return std::nullopt;
  std::uint64_t ns = *whole * unit->ns;
  if (dot == number.size()) return ns;
  // Parsed digit by digit without floating point, so that a report's time survives a round trip.
  std::uint64_t of_digit = unit->ns;
  for (const char digit : number.substr(dot + 1)) {
    if (digit < '0' || digit > '9' || of_digit % 10 != 0) return std::nullopt;
    of_digit /= 10;
    ns += static_cast<std::uint64_t>(digit - '0') * of_digit;
  }
  return ns;
}

std::string time_error(const std::string& text) {
  if (parse_time(text)) return {};
  return "'" + text + "' is no time; write 12.4s, 350ms or nanoseconds";
}

std::string size_error(std::string_view text) {
  if (parse_size(text)) return {};
  const std::string quoted = "'" + std::string(text) + "'";
  const std::string_view number = without_spaces(text);
  const std::size_t digits = std::min(number.find_first_not_of("0123456789."), number.size());
  const std::string unit = to_lower(without_spaces(number.substr(digits)));
  const auto is_unit = [&](const SizeUnit& row) { return row.name == unit; };
  const bool is_number = parse_size(number.substr(0, digits)).has_value();
  if (digits != 0 && std::ranges::any_of(kSizeUnits, is_unit)) {
    return is_number && number.substr(0, digits).find('.') == std::string_view::npos
               ? quoted + " is more than any memory has"
               : quoted + " is no whole number of bytes, or more than any memory has";
  }
  if (digits != 0 && unit.size() == 1 && std::string_view("kmgt").find(unit) != std::string::npos) {
    const std::string written(number.substr(0, digits));
    const std::string letter(1, static_cast<char>(std::toupper(unit.front())));
    return quoted + " has half a unit; write " + written + letter + "iB (of 1024) or " + written +
           letter + "B (of 1000)";
  }
  return quoted + " is no size; write 2GiB, 2GB or a number of bytes";
}

std::optional<double> parse_share(std::string_view text) {
  text = without_spaces(text);
  const bool percent = !text.empty() && text.back() == '%';
  if (percent) text = without_spaces(text.substr(0, text.size() - 1));
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (percent) value /= 100;
  if (!(value >= 0 && value <= 1)) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string number_error(const std::string& text) {
  return parse_number(text) ? std::string() : "'" + text + "' is no whole number";
}

std::vector<NamedBytes> largest_first(const BytesByName& sums) {
  std::vector<NamedBytes> holders;
  for (const auto& [name, bytes] : sums) holders.push_back({name, bytes});
  std::ranges::stable_sort(holders, std::ranges::greater(), &NamedBytes::bytes);
  return holders;
}

}  // namespace gpumemtrace::tools
