// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>

#include "analyzer/json/report_json.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/sizes.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/report_view/partial_file.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kAnalyzeFooter =
    R"TEXT(INPUT is a trace, a report or a folder of traces; several traces are one job, such as
the ranks of a distributed run. docs/report.schema.json describes the report. -o replaces a report
that is there; anything else only with --force.

leaks.gated_bytes is what was lost. Rows of leaks.exit with `inside` lie in memory of another row.

--partial writes what `gpumemtrace merge` needs of these traces: each node of a cluster analyzes
its own, and one merge makes the report of the job. It is JSON packed by zstd; `zstdcat` shows it.

Examples:
  gpumemtrace analyze job.gmt -o report.json
  gpumemtrace analyze traces/ | jq .leaks.gated_bytes
  gpumemtrace analyze job.gmt --redact -o for_others.json
  gpumemtrace analyze traces/ --partial -o node3.part.json.zst
  gpumemtrace analyze job.gmt --at 12.4s | jq '.blocks[] | {bytes, site}'

Exit codes: 0 done, 1 an input cannot be read or holds no trace, 2 usage,
24 events are missing and --require-complete was given.)TEXT";

constexpr const char* kInline = "inline";

struct AnalyzeOptions {
  bool is_partial = false;
  InputOptions input;
  OutputOptions output;
  std::string timeline_points;
  std::string stacks;
  MomentOptions moments;
  ReplayOptions replay;
};

// Throws Failure for options that a partial report cannot follow, because they concern the report
// of the whole job.
void refuse_options_of_whole_job(const AnalyzeOptions& options, const LoadOptions& load) {
  const NamingOptions& naming = options.input.naming;
  const bool has_times = naming.from_ns || naming.to_ns || naming.at_ns || naming.blocks_at_peak;
  const bool has_others = naming.redact || load.what_if || !load.scope.is_whole() ||
                          !options.stacks.empty() || options.input.require_complete;
  if (!has_times && !has_others) return;
  throw Failure(
      "--partial goes with --threshold, --timeline-points, --groups, --owners, --symbols, "
      "--debuginfod, --all-runs and --progress alone; give --redact to `gpumemtrace merge`",
      ExitCode::kUsage);
}

int analyze(AnalyzeOptions& options) {
  options.output.require_writable(options.input.inputs, options.input.naming,
                                  options.is_partial ? kPartialMark : kReportMark);
  if (!options.timeline_points.empty()) {
    options.input.naming.timeline_points = parse_number(options.timeline_points);
  }
  LoadOptions load = options.input.load_options();
  options.moments.apply(options.input.inputs, load);
  load.what_if = options.replay.question_if_asked();
  if (options.is_partial) {
    refuse_options_of_whole_job(options, load);
    if (is_stdout(options.output.output) && isatty(STDOUT_FILENO) != 0) {
      throw Failure("a partial report is packed; name a file for it with -o", ExitCode::kUsage);
    }
    write_output(options.output.output,
                 partial_file_bytes(load_traces_partially(options.input.inputs, load)));
    return to_int(ExitCode::kSuccess);
  }
  analyzer::rows::Report report = load_report(options.input.inputs, load);
  if (options.stacks == kInline) put_frames_into_stacks(report);
  write_output(options.output.output, options.stacks == kInline
                                          ? analyzer::to_text(report)
                                          : report_json(options.input.inputs, load, report));
  return options.input.exit_code(report);
}

}  // namespace

Action define_analyze(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kAnalyzeFooter);
  auto options = std::make_shared<AnalyzeOptions>();
  options->input.add_options(line);
  options->output.add_options(line, "Write the report there instead of to stdout.");
  line.flag("--partial", options->is_partial,
            "Write a partial report, for `gpumemtrace merge`, instead of the report.");
  options->moments.add_options(line);
  options->replay.add_optional(line);
  line.option("--timeline-points", options->timeline_points,
              "Most points of time in each row of timeline[] (default 1,024, in jobs of many "
              "processes down to 256).")
      .value_name("N")
      .check([](const std::string& text) {
        const auto points = parse_number(text);
        return points && *points >= 2 ? "" : "it is no whole number from 2 on";
      });
  line.option("--stacks", options->stacks,
              "Where the frames of stacks stand: in frames[], each once (index), or in each stack "
              "(inline), as in older reports.")
      .value_name("index|inline")
      .one_of({"index", kInline});
  return [options] { return analyze(*options); };
}

}  // namespace gpumemtrace::tools
