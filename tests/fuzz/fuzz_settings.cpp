// SPDX-License-Identifier: Apache-2.0
// Reads files that users write by hand: a policy, suppressions, thresholds, sizes. The first byte
// of an input chooses the kind of file.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fuzz/checks.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/check/policy.hpp"
#include "tools/check/suppressions.hpp"
#include "tools/report_view/threshold_options.hpp"

namespace {

using namespace gpumemtrace;

void read_policy(const std::string& text) {
  tools::Policy policy;
  tools::apply_policy_text(text, "policy", policy);
  tests::require(
      !policy.regression || (policy.regression->share >= 0 && policy.regression->share <= 1),
      "a share is one");
}

void read_suppressions(const std::string& text) {
  tools::Suppressions suppressions;
  suppressions.add_text(text, "suppressions");
  for (const tools::Suppression& row : suppressions.rows()) {
    tests::require(!row.pattern.empty(), "a suppression has a pattern");
    (void)tools::matches_pattern(row.pattern, text);
  }
}

void read_thresholds(const std::string& text) {
  tools::ThresholdOptions options;
  options.texts = {text};
  (void)options.values();
}

void read_sizes(const std::string& text) {
  if (const auto bytes = tools::parse_size(text)) {
    tests::require(tools::parse_size(std::to_string(*bytes)) == bytes, "a size is a number");
  }
  if (const auto share = tools::parse_share(text)) {
    tests::require(*share >= 0 && *share <= 1, "a share is at most all");
  }
  (void)tools::parse_number(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 'p':
        read_policy(text);
        break;
      case 's':
        read_suppressions(text);
        break;
      case 't':
        read_thresholds(text);
        break;
      default:
        read_sizes(text);
    }
  } catch (const tools::Failure&) {
  }
  return 0;
}
