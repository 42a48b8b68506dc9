// SPDX-License-Identifier: Apache-2.0
// The sentences and commands that `explain` makes of the messages in a log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/base/lines.hpp"
#include "tools/explain/failure_log.hpp"

namespace gpumemtrace::tools {

// The explanation of messages that have the same sizes.
struct ExplainedFailure {
  FailureGroup failure;
  std::string says;                // the verdict, with the numbers behind it
  std::vector<std::string> helps;  // what the user can do

  static void fields(auto& self, auto& v) {
    FailureGroup::fields(self.failure, v);
    GPUMEMTRACE_KEYS(v, says, helps)
  }
};

struct Explanation {
  std::vector<ExplainedFailure> messages;  // messages in the order of the log
  std::uint64_t left_out = 0;              // messages beyond the bounds of FailureLog
  std::vector<std::string> next;           // suggested commands

  static void fields(auto& self, auto& v) {
    v("format", std::string("gpumemtrace-explain"));
    v("version", std::uint64_t{1});
    GPUMEMTRACE_KEYS(v, messages, left_out, next)
  }
};

// Explains the messages of a log, which must have at least one.
[[nodiscard]] Explanation explain_failures(const FailureLog& log);

[[nodiscard]] StyledText explanation_text(const Explanation& explanation);
[[nodiscard]] std::string explanation_json(const Explanation& explanation);

}  // namespace gpumemtrace::tools
