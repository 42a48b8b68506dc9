// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/threshold_options.hpp"

#include <optional>

#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::kThresholds;
using analyzer::ThresholdInfo;
using analyzer::ThresholdUnit;

std::optional<double> parse_value(ThresholdUnit unit, const std::string& text) {
  if (unit == ThresholdUnit::kShare) return parse_share(text);
  const auto number = unit == ThresholdUnit::kBytes ? parse_size(text) : parse_number(text);
  if (!number) return std::nullopt;
  return static_cast<double>(*number);
}

std::string_view example_of(ThresholdUnit unit) {
  switch (unit) {
    case ThresholdUnit::kBytes:
      return "a size such as 64MiB";
    case ThresholdUnit::kShare:
      return "a share such as 20%";
    default:
      return "a number";
  }
}

std::string all_names() {
  std::vector<std::string_view> names;
  for (const ThresholdInfo& info : kThresholds) names.push_back(info.name);
  return joined(names);
}

}  // namespace

void ThresholdOptions::add_options(CommandLine& line) {
  line.option(
          "--threshold", texts,
          "From which size or number on a rule reports; may be repeated. Names: docs/findings.md")
      .value_name("NAME=VALUE")
      .one_value_each();
}

std::optional<analyzer::Thresholds> ThresholdOptions::values() const {
  if (texts.empty()) return std::nullopt;
  analyzer::Thresholds thresholds;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    std::size_t row = 0;
    while (row < kThresholds.size() && kThresholds[row].name != name) ++row;
    if (equals == std::string::npos || row == kThresholds.size()) {
      throw Failure(format_text("--threshold knows no '{}'; write NAME=VALUE with one of {}", text,
                                all_names()),
                    ExitCode::kUsage);
    }
    const auto value = parse_value(kThresholds[row].unit, text.substr(equals + 1));
    if (!value) {
      throw Failure(
          format_text("--threshold {}: the value is {}", text, example_of(kThresholds[row].unit)),
          ExitCode::kUsage);
    }
    thresholds.set(row, *value);
  }
  return thresholds;
}

}  // namespace gpumemtrace::tools
