// The operands and options that `analyze` and `summary` share.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/failure.hpp"
#include "tools/report_input.hpp"
#include "tools/threshold_options.hpp"

namespace gpumemtrace::tools {

struct InputOptions {
  std::vector<std::filesystem::path> inputs;
  bool require_complete = false;
  ThresholdOptions thresholds;

  // The options write into this object, which must stay where it is while CLI11 parses.
  void add_options(CLI::App& app) {
    app.add_option("INPUT", inputs, "Traces (*.gmt), folders of traces, or one report.")
        ->required()
        ->type_name("");
    app.add_flag("--require-complete", require_complete,
                 "Exit with 24 where a trace misses events.");
    thresholds.add_options(app);
  }

  Json load() const { return load_report(inputs, thresholds.values()); }

  // What the process returns once the report is out.
  int exit_code(const Json& report) const {
    return to_int(require_complete && !is_complete(report) ? ExitCode::kIncomplete
                                                           : ExitCode::kSuccess);
  }
};

}  // namespace gpumemtrace::tools
