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

// Where names come from that the traces do not hold.
inline void add_symbol_options(CLI::App& app, NamingOptions& naming) {
  app.add_option("--symbols", naming.symbols,
                 "Look for programs and debug information in this folder, or take the names from "
                 "this file of `gpumemtrace symbolize`; may be repeated.")
      ->type_name("PATH")
      ->allow_extra_args(false);
  app.add_flag("--debuginfod", naming.use_debuginfod,
               "Ask the servers in DEBUGINFOD_URLS for debug information.");
}

inline void add_naming_options(CLI::App& app, NamingOptions& naming) {
  add_symbol_options(app, naming);
  app.add_option("--owners", naming.owners,
                 "Rules that say whose code is whose (docs/owners.md); may be repeated.")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

struct InputOptions {
  std::vector<std::filesystem::path> inputs;
  bool require_complete = false;
  bool tell_progress = false;
  NamingOptions naming;
  ThresholdOptions thresholds;

  // The options write into this object, which must stay where it is while CLI11 parses.
  void add_options(CLI::App& app) {
    app.add_option("INPUT", inputs, "Traces (*.gmt), folders of traces, or one report.")
        ->required()
        ->type_name("");
    app.add_flag("--require-complete", require_complete,
                 "Exit with 24 where a trace misses events.");
    app.add_flag("--progress", tell_progress,
                 "Say on stderr how far the analysis is, also where that is no terminal.");
    add_naming_options(app, naming);
    thresholds.add_options(app);
  }

  Json load() const { return load_report(inputs, naming, thresholds.values(), tell_progress); }

  // What the process returns once the report is out.
  int exit_code(const Json& report) const {
    return to_int(require_complete && !is_complete(report) ? ExitCode::kIncomplete
                                                           : ExitCode::kSuccess);
  }
};

}  // namespace gpumemtrace::tools
