// SPDX-License-Identifier: Apache-2.0
// The sentences and commands that `explain` makes of the messages in a log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/base/lines.hpp"
#include "tools/explain/failure_log.hpp"

namespace gpumemtrace::tools {

// Messages with the same sizes, in sentences.
struct ExplainedFailure {
  FailureGroup failure;
  std::string says;                // the verdict, with its numbers
  std::vector<std::string> helps;  // what follows from it

  static void fields(auto& self, auto& v) {
    FailureGroup::fields(self.failure, v);
    GPUMEMTRACE_KEYS(v, says, helps)
  }
};

struct Explanation {
  std::vector<ExplainedFailure> messages;  // in the order of the log
  std::uint64_t left_out = 0;              // messages beyond the bounds of FailureLog
  std::vector<std::string> next;           // commands

  static void fields(auto& self, auto& v) {
    v("format", std::string("gpumemtrace-explain"));
    v("version", std::uint64_t{1});
    GPUMEMTRACE_KEYS(v, messages, left_out, next)
  }
};

// The log has a message.
[[nodiscard]] Explanation explain_failures(const FailureLog& log);

[[nodiscard]] StyledText explanation_text(const Explanation& explanation);
[[nodiscard]] std::string explanation_json(const Explanation& explanation);

}  // namespace gpumemtrace::tools
