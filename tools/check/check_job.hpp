// SPDX-License-Identifier: Apache-2.0
// The work that the commands `check` and `run --check` share: reads inputs and a policy, judges the
// job, and prints and writes the verdict.
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
  // True: prints annotations, and writes the step summary if GitHub asks for one.
  bool github = false;
  std::string page_url;  // URL of the job's report page, linked in the step summary
};

enum class VerdictPrint { kText, kTextToStderr, kJson };

struct CheckRequest {
  std::vector<std::filesystem::path> inputs;
  Policy policy;
  LoadOptions load;
  VerdictFiles files;
  VerdictPrint print = VerdictPrint::kText;
  bool write_baseline = false;
  bool force = false;  // true: replaces existing files that we did not write
  std::string color = "auto";
};

// Throws Failure for options that contradict each other, would have no effect, or name files that
// may not be written. To be called before the work.
void require_sense(const CheckRequest& request);

// Judges the job and writes the verdict; returns the exit code. Throws Failure if inputs cannot be
// read, and as require_sense() does.
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
