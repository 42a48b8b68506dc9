// SPDX-License-Identifier: Apache-2.0
// The error of a command, and the exit code of its process.
#pragma once

#include <stdexcept>
#include <string>

namespace gpumemtrace::tools {

enum class ExitCode : int {
  kSuccess = 0,
  kFailure = 1,     // unreadable input, nothing to work on, a system call that failed
  kUsage = 2,       // the command line is not valid
  kViolated = 23,   // the policy of `check` or the limit of `diff` does not hold
  kIncomplete = 24  // the trace lacks events although the user required all
};

constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

// The only exception that commands throw. The message is one sentence for the user: what happened,
// to which file or call, and what to do.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& message, ExitCode exit_code = ExitCode::kFailure)
      : std::runtime_error(message), exit_code_(exit_code) {}

  ExitCode exit_code() const { return exit_code_; }

 private:
  ExitCode exit_code_;
};

}  // namespace gpumemtrace::tools
