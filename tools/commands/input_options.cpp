// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/input_options.hpp"

#include <CLI/CLI.hpp>

#include "tools/base/failure.hpp"

namespace gpumemtrace::tools {

void add_symbol_options(CLI::App& app, NamingOptions& naming) {
  app.add_option("--symbols", naming.symbols,
                 "Look for programs and debug information in this folder, or take the names from "
                 "this file of `gpumemtrace symbolize`; may be repeated.")
      ->type_name("PATH")
      ->allow_extra_args(false);
  app.add_flag("--debuginfod", naming.use_debuginfod,
               "Ask the servers in DEBUGINFOD_URLS for debug information.");
}

void add_naming_options(CLI::App& app, NamingOptions& naming) {
  add_symbol_options(app, naming);
  app.add_option("--owners", naming.owners,
                 "Rules that say whose code is whose (docs/owners.md); may be repeated.")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void InputOptions::add_options(CLI::App& app) {
  app.add_option("INPUT", inputs, "Traces (*.gmt), folders of traces, or one report.")
      ->required()
      ->type_name("");
  app.add_flag("--require-complete", require_complete, "Exit with 24 where a trace misses events.");
  app.add_flag("--redact", naming.redact,
               "Replace private names (paths, commands, hosts, functions of the program) by "
               "names without meaning (docs/security.md).");
  app.add_flag("--progress", tell_progress,
               "Say on stderr how far the analysis is, also where that is no terminal.");
  add_naming_options(app, naming);
  thresholds.add_options(app);
}

Json InputOptions::load() const {
  return load_report(inputs, naming, thresholds.values(), tell_progress);
}

int InputOptions::exit_code(const Json& report) const {
  return to_int(require_complete && !is_complete(report) ? ExitCode::kIncomplete
                                                         : ExitCode::kSuccess);
}

}  // namespace gpumemtrace::tools
