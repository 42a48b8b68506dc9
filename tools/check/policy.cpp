// SPDX-License-Identifier: Apache-2.0
#include "tools/check/policy.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <sstream>

#include "analyzer/findings/rule_table.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::rows::PeakOf;

constexpr std::array<std::string_view, 7> kLevels = {"physical", "driver",    "pool",    "managed",
                                                     "host",     "framework", "imported"};

[[noreturn]] void refuse_policy(const std::string& message) {
  throw Failure(message, ExitCode::kUsage);
}

std::uint64_t size_of(const char* name, const std::string& value) {
  if (const std::string complaint = size_error(value); !complaint.empty()) {
    refuse_policy(format_text("{}: {}", name, complaint));
  }
  return *parse_size(value);
}

template <auto kMember>
void set_size(Policy& policy, const char* name, const std::string& value) {
  policy.*kMember = size_of(name, value);
}

void set_card(Policy& policy, const char* name, const std::string& value) {
  policy.max_what_if_bytes = size_of(name, value);
  if (policy.max_what_if_bytes == 0)
    refuse_policy(format_text("{}: there is no card of 0 bytes", name));
}

void set_peak(Policy& policy, const char* name, const std::string& value) {
  const std::vector<std::string> parts = split(value, ",");
  PeakLimit limit;
  limit.bytes = size_of(name, parts.empty() ? "" : parts.front());
  bool has_scope = false;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    if (part == "scope=job" || part == "scope=card") {
      limit.of = part == "scope=card" ? PeakOf::kCard : PeakOf::kJob;
      has_scope = true;
    } else if (part.starts_with("level=")) {
      limit.level = part.substr(6);
      if (std::ranges::find(kLevels, limit.level) == kLevels.end()) {
        refuse_policy(format_text("{}: there is no level '{}'; known are {}", name, limit.level,
                                  joined(kLevels)));
      }
    } else if (part.starts_with("gpu=") && parse_number(part.substr(4))) {
      limit.device = "d" + part.substr(4);
    } else {
      refuse_policy(format_text(
          "{}: '{}' is neither scope=job, scope=card, level=LEVEL nor gpu=NUMBER", name, part));
    }
  }
  if (has_scope && !limit.level.empty()) {
    refuse_policy(format_text("{}: a level has no scope; leave out scope= or level=", name));
  }
  policy.max_peaks.push_back(limit);
}

void set_stranded(Policy& policy, const char* name, const std::string& value) {
  policy.max_stranded_share = parse_share(value);
  if (!policy.max_stranded_share) {
    refuse_policy(format_text("{}: '{}' is no share; write 20% or 0.2", name, value));
  }
}

bool is_rule(const std::string& name) {
  return name == "any" ||
         std::ranges::any_of(analyzer::kRules, [&](const analyzer::RuleInfo& rule) {
           return rule.name == name || rule.family == name;
         });
}

void set_fail_on(Policy& policy, const char* name, const std::string& value) {
  const std::size_t colon = value.find(':');
  FailOn row{value.substr(0, colon), "info"};
  if (colon != std::string::npos) row.least_severity = value.substr(colon + 1);
  if (!is_rule(row.rule)) {
    std::string names = "any";
    for (const analyzer::RuleInfo& rule : analyzer::kRules) names += ", " + std::string(rule.name);
    refuse_policy(format_text("{}: there is no rule '{}'; known are {}", name, row.rule, names));
  }
  if (row.least_severity != "info" && row.least_severity != "warning" &&
      row.least_severity != "error") {
    refuse_policy(format_text("{}: '{}' is no severity; write error, warning or info", name,
                              row.least_severity));
  }
  policy.fail_on.push_back(row);
}

// Sets the allowed growth: "5%", "8MiB" or both with a comma; the part that is missing is zero.
void set_regression(Policy& policy, const char* name, const std::string& value) {
  RegressionLimit limit{0, 0};
  for (const std::string& part : split(value, ",")) {
    const auto share = part.find('%') == std::string::npos ? std::nullopt : parse_share(part);
    if (share) {
      limit.share = *share;
    } else {
      limit.bytes = size_of(name, part);
    }
  }
  policy.regression = limit;
}

template <auto kMember>
void set_flag(Policy& policy, const char* name, const std::string& value) {
  policy.*kMember = value == "true" || value == "1" || value == "yes";
  if (policy.*kMember || value == "false" || value == "0" || value == "no") return;
  refuse_policy(format_text("{}: '{}' is neither true nor false", name, value));
}

std::string without_spaces_and_quotes(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\"");
  if (begin == std::string_view::npos) return {};
  const std::size_t end = text.find_last_not_of(" \t\r\"");
  return std::string(text.substr(begin, end - begin + 1));
}

}  // namespace

const std::vector<PolicySetting>& policy_settings() {
  static const std::vector<PolicySetting> settings = {
      {"max-leak", "SIZE", "Most bytes that may be lost at exit.",
       set_size<&Policy::max_leak_bytes>},
      {"max-growth", "SIZE",
       "Most bytes that one place may grow by in a step; where a job has no steps, in the run.",
       set_size<&Policy::max_growth_bytes>},
      {"max-peak", "SIZE[,scope=S|,level=L][,gpu=N]",
       "Highest peak of a device: of all that the job has in use there; with scope=card of all "
       "that "
       "anybody has, with level=LEVEL of one allocator layer.",
       set_peak},
      {"max-stranded", "SHARE",
       "Largest part of reserved memory that is free beside live blocks, such as 20%.",
       set_stranded},
      {"max-transfer", "SIZE", "Most bytes copied between host and devices.",
       set_size<&Policy::max_transfer_bytes>},
      {"max-what-if", "SIZE",
       "A card on which the recorded run must fit, by a replay of PyTorch's allocator.", set_card},
      {"fail-on", "RULE[:SEVERITY]", "Findings of the rule, or of `any`, that fail.", set_fail_on},
      {"suppressions", "FILE", "Findings to leave out, by patterns in LeakSanitizer's syntax.",
       [](Policy& policy, const char*, const std::string& value) {
         policy.suppression_files.emplace_back(value);
       }},
      {"baseline", "FILE", "What is known and accepted; only what is new or larger fails.",
       [](Policy& policy, const char*, const std::string& value) { policy.baseline = value; }},
      {"max-regression", "SHARE|SIZE",
       "How much more than the baseline is allowed (default 5%,8MiB: the larger). What is "
       "lost may not become more at all.",
       set_regression},
      {"allow-empty", nullptr, "No trace and no CUDA call is no failure.",
       set_flag<&Policy::allow_empty>},
      {"allow-incomplete", nullptr, "A trace that misses events is no failure.",
       set_flag<&Policy::allow_incomplete>},
  };
  return settings;
}

std::uint64_t RegressionLimit::allowed_bytes(std::uint64_t base_bytes) const {
  const double share_of_base = share * static_cast<double>(base_bytes);
  constexpr std::uint64_t kAny = ~std::uint64_t{0};
  const auto share_bytes =
      share_of_base < 0x1p64 ? static_cast<std::uint64_t>(share_of_base) : kAny;
  const std::uint64_t allowed = base_bytes + std::max(share_bytes, bytes);
  return allowed < base_bytes ? kAny : allowed;
}

bool Policy::is_default() const {
  return !max_leak_bytes && !max_growth_bytes && max_peaks.empty() && !max_stranded_share &&
         !max_transfer_bytes && !max_what_if_bytes && fail_on.empty();
}

void Policy::require_sense() const {
  if (regression && baseline.empty()) {
    refuse_policy(
        "max-regression needs --baseline FILE, from which it counts; without one it checks "
        "nothing");
  }
}

void PolicyOptions::add_options(CommandLine& line) {
  const std::vector<PolicySetting>& settings = policy_settings();
  values_.resize(settings.size());
  line.option("--policy", file_,
              "Lines `name = value` with the names of the options below; options add to them.")
      .value_name("FILE");
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string name = std::string("--") + settings[i].name;
    if (settings[i].value_name == nullptr) {
      std::vector<std::string>& values = values_[i];
      line.flag(
          name, [&values] { values.emplace_back("true"); }, settings[i].help);
    } else {
      line.option(name, values_[i], settings[i].help)
          .value_name(settings[i].value_name)
          .one_value_each();
    }
  }
}

void apply_policy_text(std::string_view text, const std::string& origin, Policy& policy) {
  std::istringstream stream{std::string(text)};
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::string content =
        without_spaces_and_quotes(std::string_view(line).substr(0, line.find('#')));
    if (content.empty()) continue;
    const std::size_t equals = content.find('=');
    const std::string name = without_spaces_and_quotes(std::string_view(content).substr(0, equals));
    const auto& settings = policy_settings();
    const auto setting = std::ranges::find(settings, name, &PolicySetting::name);
    if (equals == std::string::npos || setting == settings.end()) {
      refuse_policy(
          format_text("{}:{}: '{}' is no setting; write `name = value` with the names of `check`'s "
                      "options",
                      origin, number, content));
    }
    try {
      setting->set(policy, setting->name,
                   without_spaces_and_quotes(std::string_view(content).substr(equals + 1)));
    } catch (const Failure& failure) {
      refuse_policy(format_text("{}:{}: {}", origin, number, failure.what()));
    }
  }
}

bool PolicyOptions::given() const {
  return !file_.empty() ||
         std::ranges::any_of(values_, [](const auto& values) { return !values.empty(); });
}

Policy PolicyOptions::policy() const {
  Policy policy;
  if (!file_.empty()) {
    std::ifstream file(file_);
    if (!file) {
      throw Failure(
          format_text("cannot open the policy {}: {}", file_.string(), std::strerror(errno)));
    }
    std::ostringstream text;
    text << file.rdbuf();
    apply_policy_text(text.str(), file_.string(), policy);
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const PolicySetting& setting = policy_settings()[i];
    for (const std::string& value : values_[i]) setting.set(policy, setting.name, value);
  }
  policy.require_sense();
  return policy;
}

}  // namespace gpumemtrace::tools
