// SPDX-License-Identifier: Apache-2.0
// From inputs and a policy to a verdict that is printed and written: what `check` and `run --check`
// share.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "analyzer/findings/thresholds.hpp"
#include "tools/check/policy.hpp"
#include "tools/report_view/report_input.hpp"

namespace gpumemtrace::tools {

// Where a verdict goes beside the terminal; empty paths are not written.
struct VerdictFiles {
  std::filesystem::path json;
  std::filesystem::path junit;
  std::filesystem::path sarif;
  bool github = false;  // annotations on stdout, and the step summary where GitHub asks for one
};

enum class VerdictPrint { kText, kTextToStderr, kJson };

struct CheckRequest {
  std::vector<std::filesystem::path> inputs;
  Policy policy;
  NamingOptions naming;
  analyzer::Thresholds thresholds;
  VerdictFiles files;
  VerdictPrint print = VerdictPrint::kText;
  bool write_baseline = false;
};

// Returns the exit code. Throws Failure for inputs that cannot be read.
[[nodiscard]] int check_job(const CheckRequest& request);

}  // namespace gpumemtrace::tools
