// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <string>

#include "tools/base/messages.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/page/report_page.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kReportFooter =
    R"TEXT(INPUT is a trace, a report or a folder of traces; several traces are one job.
The page is one file that needs no network and no server; any browser opens it (docs/page.md).

Examples:
  gpumemtrace report job.gmt -o job.html
  gpumemtrace report traces/ -o job.html --force
  gpumemtrace report job.gmt --redact -o for_others.html
  gpumemtrace report job.gmt --from 12.40s --until 12.55s -o detail.html
  gpumemtrace report job.gmt --step 12 --at step:12 -o step.html

Exit codes: 0 done, 1 an input cannot be read or holds no trace, 2 usage, or the output is there
already, 24 events are missing and --require-complete was given.)TEXT";

struct ReportOptions {
  InputOptions input;
  OutputOptions output;
  MomentOptions moments;
  ReplayOptions replay;
};

int write_report(ReportOptions& options) {
  options.output.require_writable(options.input.inputs, options.input.naming);
  LoadOptions load = options.input.load_options();
  options.moments.apply(options.input.inputs, load);
  load.what_if = options.replay.question_if_asked();
  const std::filesystem::path& output = options.output.output;
  const analyzer::rows::Report report = load_report(options.input.inputs, load);
  const std::string page = report_page(report);
  write_output(output, page);
  if (!is_stdout(output)) {
    say(format_text("wrote {} ({}); any browser opens it", output.string(),
                    size_text(page.size())));
  }
  return options.input.exit_code(report);
}

}  // namespace

Action define_report(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kReportFooter);
  auto options = std::make_shared<ReportOptions>();
  options->input.add_options(line);
  options->output.add_options(line, "Write the page there; - is stdout.").required();
  options->moments.add_options(line);
  options->replay.add_optional(line);
  return [options] { return write_report(*options); };
}

}  // namespace gpumemtrace::tools
