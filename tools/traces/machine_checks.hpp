// SPDX-License-Identifier: Apache-2.0
// The checks of `doctor`.
#pragma once

#include <string>
#include <vector>

namespace gpumemtrace::tools {

enum class CheckState {
  kOk,
  kNote,  // something works less well, or not at all, and recording does not need it
  kBad    // programs cannot be recorded here
};

struct CheckResult {
  CheckState state = CheckState::kOk;
  std::string subject;
  std::string finding;
  std::string remedy;  // empty if there is nothing to do
};

// Every check, in the order in which they are shown. Drivers are loaded in processes of their own.
[[nodiscard]] std::vector<CheckResult> check_machine();

}  // namespace gpumemtrace::tools
