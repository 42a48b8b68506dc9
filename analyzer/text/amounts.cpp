// SPDX-License-Identifier: Apache-2.0
#include "analyzer/text/amounts.hpp"

#include <array>
#include <cstddef>
#include <cstdio>

namespace gpumemtrace::analyzer {
namespace {

std::string with_unit(double value, int digits, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %s", digits, value, unit);
  return text;
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr double kKibi = 1024.0;
  if (bytes == 1) return "1 byte";
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes) / kKibi;
  std::size_t unit = 0;
  // With one decimal, 1023.95 would be rounded to 1024.0: it gets the next unit instead.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= kKibi;
    ++unit;
  }
  return with_unit(value, 1, kUnits[unit]);
}

std::string duration_text(std::uint64_t duration_ns) {
  const auto value = static_cast<double>(duration_ns);
  if (duration_ns < 1'000) return std::to_string(duration_ns) + " ns";
  if (duration_ns < 1'000'000) return with_unit(value / 1e3, 1, "us");
  if (duration_ns < 1'000'000'000) return with_unit(value / 1e6, 1, "ms");
  if (duration_ns < 120'000'000'000) return with_unit(value / 1e9, 2, "s");
  if (duration_ns < 7'200'000'000'000) return with_unit(value / 60e9, 1, "min");
  return with_unit(value / 3600e9, 1, "h");
}

std::string format_count(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t position = text.size(); position > 3;) {
    position -= 3;
    text.insert(position, 1, ',');
  }
  return text;
}

std::string count_of(std::uint64_t count, std::string_view one, std::string_view many) {
  return format_count(count) + ' ' + std::string(count == 1 ? one : many);
}

}  // namespace gpumemtrace::analyzer
