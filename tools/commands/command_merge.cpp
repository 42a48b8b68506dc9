// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "analyzer/json/report_json.hpp"
#include "tools/base/output_file.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kMergeFooter =
    R"TEXT(INPUT is a partial report of `gpumemtrace analyze --partial` or `gpumemtrace reduce`, a trace,
or a folder of both. The report is the one that `gpumemtrace analyze` makes of all their traces
together, byte for byte, whatever the order of the inputs. A trace that several of them have counts
once. A trace that is there itself counts before its partial report.

Partial reports of another version of gpumemtrace or of other options are refused.

Examples:
  gpumemtrace merge node*.part.json.zst -o report.json
  gpumemtrace merge traces/ -o report.json
  gpumemtrace merge node*.part.json.zst --redact -o for_others.json

Exit codes: 0 done, 1 a partial report cannot be read or merged, 2 usage,
24 events are missing and --require-complete was given.)TEXT";

struct MergeOptions {
  std::vector<std::filesystem::path> inputs;
  OutputOptions output;
  LoadOptions load;
  bool require_complete = false;
};

int merge(const MergeOptions& options) {
  options.output.require_writable(options.inputs, {}, kReportMark);
  const analyzer::rows::Report report = load_merged(options.inputs, options.load);
  write_output(options.output.output, analyzer::to_text(report));
  return to_int(options.require_complete && !is_complete(report) ? ExitCode::kIncomplete
                                                                 : ExitCode::kSuccess);
}

}  // namespace

Action define_merge(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kMergeFooter);
  auto options = std::make_shared<MergeOptions>();
  line.option("INPUT", options->inputs, "Partial reports, traces and folders of both, of one job.")
      .required()
      .value_name("");
  options->output.add_options(line, "Write the report there instead of to stdout.");
  line.flag("--redact", options->load.naming.redact,
            "Replace private names by names without meaning (docs/security.md).");
  line.flag("--require-complete", options->require_complete,
            "Exit with 24 where a trace misses events; without it, that is only said.");
  add_all_runs_option(line, options->load.all_runs);
  return [options] { return merge(*options); };
}

}  // namespace gpumemtrace::tools
