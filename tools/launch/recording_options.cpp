// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/recording_options.hpp"

#include <filesystem>
#include <optional>

#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::string_view kPatternFields = "hpetnrj%";

// The length of the % field at the front of `text`; 0 if there is no such field.
std::size_t field_length(std::string_view text) {
  if (text.size() < 2) return 0;
  if (kPatternFields.find(text[1]) != std::string_view::npos) return 2;
  if (text.substr(1, 2) != "q{") return 0;
  const std::size_t close = text.find('}');
  return close == std::string_view::npos || close == 3 ? 0 : close + 1;
}

// The checked pattern with a slash behind an existing folder, as the recording library expects it.
std::string output_pattern(std::string pattern) {
  check_output_pattern(pattern);
  std::error_code ignored;
  if (pattern.back() != '/' && std::filesystem::is_directory(pattern, ignored)) pattern += '/';
  return pattern;
}

}  // namespace

void check_output_pattern(std::string_view pattern) {
  for (std::size_t at = pattern.find('%'); at != std::string_view::npos;
       at = pattern.find('%', at)) {
    const std::size_t length = field_length(pattern.substr(at));
    if (length == 0) {
      throw Failure(format_text("the output pattern '{}' has an unknown field at '{}'; known are "
                                "%h %p %e %t %n %r %j %q{{VAR}} and %% for a percent sign",
                                pattern, pattern.substr(at, 3)),
                    ExitCode::kUsage);
    }
    at += length;
  }
  if (pattern.empty()) {
    throw Failure("the output pattern is empty; name a file or a folder", ExitCode::kUsage);
  }
}

void RecordingSettings::add_options(CommandLine& line) {
  for (std::size_t i = 0; i < kRecordingOptions.size(); ++i) {
    const RecordingOption& row = kRecordingOptions[i];
    const std::string help = format_text("{}\n[{}]", row.help, row.variable);
    if (row.kind == ValueKind::kFlag) {
      options_[i] = line.flag(row.flags, help);
      continue;
    }
    if (row.kind == ValueKind::kSwitch) {
      options_[i] = line.flag(row.flags, switches_[i], help);
      continue;
    }
    options_[i] = line.option(row.flags, texts_[i], help).value_name(row.value_name);
    if (row.kind == ValueKind::kSize) {
      options_[i].check([](const std::string& text) { return size_error(text); });
    } else if (row.kind == ValueKind::kNumber) {
      options_[i].whole_number(0, row.most);
    } else if (row.kind == ValueKind::kChoice) {
      options_[i].one_of(split(row.value_name, "|"));
    }
  }
}

std::vector<EnvironmentVariable> RecordingSettings::environment() const {
  std::vector<EnvironmentVariable> variables;
  for (std::size_t i = 0; i < kRecordingOptions.size(); ++i) {
    const RecordingOption& row = kRecordingOptions[i];
    if (options_[i].count() == 0) continue;
    if (row.kind == ValueKind::kFlag) {
      variables.push_back({row.variable, "1"});
      continue;
    }
    if (row.kind == ValueKind::kSwitch) {
      variables.push_back({row.variable, switches_[i] ? "1" : "0"});
      continue;
    }
    std::string value = texts_[i];
    if (row.kind == ValueKind::kSize) value = std::to_string(*parse_size(value));
    if (row.variable == kOutputVariable) value = output_pattern(value);
    variables.push_back({row.variable, std::move(value)});
  }
  return variables;
}

}  // namespace gpumemtrace::tools
