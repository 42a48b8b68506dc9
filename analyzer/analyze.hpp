// SPDX-License-Identifier: Apache-2.0
// The analyzer's entry point: traces in, report out.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "analyzer/base/input_error.hpp"
#include "analyzer/findings/thresholds.hpp"
#include "analyzer/rows/report.hpp"
#include "analyzer/symbols/symbol_options.hpp"

namespace gpumemtrace::analyzer {

struct Options {
  // Called now and then with the done part, 0 to 1, from the calling thread.
  std::function<void(double fraction)> progress;
  // From where on the rules behind report.findings[] speak up.
  Thresholds thresholds;
  SymbolOptions symbols;
  std::vector<std::filesystem::path> owner_files;  // rules of the user, docs/owners.md
  bool redact = false;  // names without meaning for what is private, docs/security.md
};

// The report of the job that `inputs` (traces and folders of traces) belong to. The same traces
// give the same report.
// Throws InputError where an input is missing, unreadable or no trace.
[[nodiscard]] rows::Report analyze(const std::vector<std::filesystem::path>& inputs,
                                   const Options& options);

}  // namespace gpumemtrace::analyzer
