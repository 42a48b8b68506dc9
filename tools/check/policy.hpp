// SPDX-License-Identifier: Apache-2.0
// The policy of `check`: the limits and rules that flags or a policy file name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/rows/card_rows.hpp"
#include "tools/cli/command_line.hpp"

namespace gpumemtrace::tools {

struct PeakLimit {
  std::uint64_t bytes = 0;
  // The peak that is limited if `level` is empty: of the job's memory, or of all memory in use on
  // the device.
  analyzer::rows::PeakOf of = analyzer::rows::PeakOf::kJob;
  // A level, or "physical": the sum that the job's processes asked for on a device.
  std::string level;
  std::string device;  // empty: each device
};

// Fails a job for findings of `rule`, which is a rule, a family or "any", with at least this
// severity.
struct FailOn {
  std::string rule;
  std::string least_severity;
};

// The allowed growth since the baseline: the larger of `share` and `bytes`. It does not apply to
// leaks, which may not grow at all.
struct RegressionLimit {
  double share = 0.05;
  std::uint64_t bytes = 8 << 20;

  [[nodiscard]] std::uint64_t allowed_bytes(std::uint64_t base_bytes) const;
};

struct Policy {
  std::optional<std::uint64_t> max_leak_bytes;
  std::optional<std::uint64_t> max_growth_bytes;
  std::vector<PeakLimit> max_peaks;
  std::optional<double> max_stranded_share;
  std::optional<std::uint64_t> max_transfer_bytes;
  std::optional<std::uint64_t> max_what_if_bytes;  // bytes of a card into which the run must fit
  std::vector<FailOn> fail_on;
  std::optional<RegressionLimit> regression;  // empty: the defaults of RegressionLimit
  bool allow_empty = false;
  bool allow_incomplete = false;
  std::vector<std::filesystem::path> suppression_files;
  std::filesystem::path baseline;

  // True if no limit was set: then every exact finding of severity error fails.
  [[nodiscard]] bool is_default() const;

  // Throws Failure for settings that would be ignored: an allowed growth without a baseline to grow
  // from.
  void require_sense() const;
};

// One setting of a policy: an option of the command line and a line of a policy file.
struct PolicySetting {
  const char* name;        // the option's name without dashes
  const char* value_name;  // the value's name in the help; nullptr for a flag
  const char* help;
  // Sets the value. Throws Failure for a value that is not valid.
  void (*set)(Policy& policy, const char* name, const std::string& value);
};
[[nodiscard]] const std::vector<PolicySetting>& policy_settings();

// Collects the settings in the order in which they stand, the policy file's first.
class PolicyOptions {
 public:
  // The options write into this object, which must stay where it is while the command is parsed.
  void add_options(CommandLine& line);
  // Throws Failure for a file that cannot be read and for a setting that makes no sense.
  [[nodiscard]] Policy policy() const;
  // True if any setting or a policy file was named.
  [[nodiscard]] bool given() const;

 private:
  std::filesystem::path file_;
  // A list of values for each row of policy_settings().
  std::vector<std::vector<std::string>> values_;
};

// Applies the text of a policy file: `"name = value"` on each line; a comment begins with #.
// `origin` names the file in errors.
void apply_policy_text(std::string_view text, const std::string& origin, Policy& policy);

}  // namespace gpumemtrace::tools
