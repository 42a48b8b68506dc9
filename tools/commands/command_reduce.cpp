// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/report_view/input_files.hpp"
#include "tools/report_view/reduced_traces.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kReduceFooter =
    R"TEXT(Writes the partial report of each trace beside it, NAME.gmt.part.json.zst. Commands that show a
report take partial reports, and folders of them, in place of traces that are gone; thresholds,
groups and names are then those of `reduce`.

--drop-traces deletes a trace and its ring after its partial report was written, synced, read back
and found to be the same. A trace that a process may still write, or that misses events, is kept
and named.

Examples:
  gpumemtrace reduce traces/
  gpumemtrace reduce traces/ --drop-traces
  gpumemtrace summary traces/

Exit codes: 0 all traces are reduced, 1 some are kept, or an input cannot be read, 2 usage.)TEXT";

struct ReduceOptions {
  std::vector<std::filesystem::path> inputs;
  LoadOptions load;
  ThresholdOptions thresholds;
  bool deletes = false;
};

int reduce_inputs(ReduceOptions& options) {
  options.load.thresholds = options.thresholds.values();
  const Reduction reduction =
      reduce_traces(find_input_files(options.inputs).traces, options.load, options.deletes);
  say_reduced(reduction, options.deletes);
  warn_of_kept(reduction);
  return to_int(reduction.kept.empty() ? ExitCode::kSuccess : ExitCode::kFailure);
}

}  // namespace

Action define_reduce(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kReduceFooter);
  auto options = std::make_shared<ReduceOptions>();
  line.option("TRACE", options->inputs, "Traces (*.gmt) and folders of traces.")
      .required()
      .value_name("");
  add_drop_option(line, options->deletes);
  add_groups_option(line, options->load.naming);
  add_naming_options(line, options->load.naming);
  options->thresholds.add_options(line);
  return [options] { return reduce_inputs(*options); };
}

}  // namespace gpumemtrace::tools
