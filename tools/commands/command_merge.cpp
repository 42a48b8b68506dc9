// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "analyzer/json/report_json.hpp"
#include "tools/base/output_file.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kMergeFooter =
    R"TEXT(PARTIAL is a partial report of `gpumemtrace analyze --partial`. The report is the one
that `gpumemtrace analyze` makes of all their traces together, byte for byte, whatever the order of
the partial reports. A trace that several of them have counts once.

Partial reports of another version of gpumemtrace or of other options are refused.

Examples:
  gpumemtrace merge node*.part.json -o report.json
  gpumemtrace merge node*.part.json --redact -o for_others.json

Exit codes: 0 done, 1 a partial report cannot be read or merged, 2 usage,
24 events are missing and --require-complete was given.)TEXT";

struct MergeOptions {
  std::vector<std::filesystem::path> partials;
  OutputOptions output;
  bool redact = false;
  bool require_complete = false;
};

int merge(const MergeOptions& options) {
  options.output.require_writable(options.partials, {}, kReportMark);
  const analyzer::rows::Report report = merge_files(options.partials, options.redact);
  write_output(options.output.output, analyzer::to_text(report));
  return to_int(options.require_complete && !is_complete(report) ? ExitCode::kIncomplete
                                                                 : ExitCode::kSuccess);
}

}  // namespace

Action define_merge(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kMergeFooter);
  auto options = std::make_shared<MergeOptions>();
  line.option("PARTIAL", options->partials, "Partial reports of one job.")
      .required()
      .value_name("");
  options->output.add_options(line, "Write the report there instead of to stdout.");
  line.flag("--redact", options->redact,
            "Replace private names by names without meaning (docs/security.md).");
  line.flag("--require-complete", options->require_complete,
            "Exit with 24 where a trace misses events; without it, that is only said.");
  return [options] { return merge(*options); };
}

}  // namespace gpumemtrace::tools
