// SPDX-License-Identifier: Apache-2.0
// From inputs and a policy to a verdict that is printed and written: what `check` and `run --check`
// share.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/check/policy.hpp"
#include "tools/report_view/report_input.hpp"

namespace gpumemtrace::tools {

// Output files for the verdict; an empty path means "not written".
struct VerdictFiles {
  std::filesystem::path json;
  std::filesystem::path junit;
  std::filesystem::path sarif;
  bool github = false;   // annotations on stdout, and the step summary if GitHub asks for one
  std::string page_url;  // a link for the step summary
};

enum class VerdictPrint { kText, kTextToStderr, kJson };

struct CheckRequest {
  std::vector<std::filesystem::path> inputs;
  Policy policy;
  LoadOptions load;
  VerdictFiles files;
  VerdictPrint print = VerdictPrint::kText;
  bool write_baseline = false;
  bool force = false;  // files of others are replaced
  std::string color = "auto";
};

// Throws Failure for options that contradict each other, would be ignored, or name files that may
// not be written. Before the work.
void require_sense(const CheckRequest& request);

// Returns the exit code. Throws Failure for inputs that cannot be read, and what require_sense()
// throws.
[[nodiscard]] int check_job(const CheckRequest& request);

// Options of `check` and `run` for the outputs of a verdict.
struct VerdictOptions {
  VerdictFiles files;
  bool json = false;
  bool write_baseline = false;

  // The options write into this object, which must stay where it is while the command is parsed.
  void add_options(CommandLine& line);
  [[nodiscard]] bool given() const;
};

}  // namespace gpumemtrace::tools
