// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <optional>

#include "tools/base/failure.hpp"
#include "tools/base/shell_words.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/terminal.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/report_view/step_moment.hpp"
#include "tools/summary/summary_step.hpp"
#include "tools/summary/summary_text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kSummaryFooter =
    R"TEXT(INPUT is a trace, a report or a folder of traces; several traces are one job.

Examples:
  gpumemtrace summary job.gmt
  gpumemtrace summary report.json
  gpumemtrace summary job/ --rank 2 --full
  gpumemtrace summary job.gmt --step 12

Exit codes: 0 done, 1 an input cannot be read or holds no trace, 2 usage,
24 events are missing and --require-complete was given.)TEXT";

struct SummaryOptions {
  InputOptions input;
  std::string step;
  bool full = false;
  bool json = false;
  std::string color = "auto";
};

// The text of --step: the memory at the step's peak in the process that had the highest one, beside
// the step before in the same process if something was allocated by then.
std::string text_of_step(const SummaryOptions& options, const analyzer::rows::Report& report,
                         std::uint64_t index) {
  const std::vector<analyzer::rows::Step> found = find_step(report, index);
  const LoadOptions load = options.input.load_options();
  const StepMoment now = step_moment(options.input.inputs, load, found.front());
  std::optional<StepMoment> before;
  if (const auto step = find_step_before(report, now.step)) {
    before = find_step_moment(options.input.inputs, load, *step);
  }
  return step_text(report, now, before, found.size(), output_width(stdout));
}

int summarize(const SummaryOptions& options) {
  if (options.json && !options.step.empty()) {
    throw Failure("--json prints the report of the whole run; leave --step out", ExitCode::kUsage);
  }
  const LoadOptions load = options.input.load_options();
  if (options.json) {
    const analyzer::rows::Report report = load_report(options.input.inputs, load);
    write_text(stdout, report_json(options.input.inputs, load, report));
    return options.input.exit_code(report);
  }
  const analyzer::rows::Report report = load_printable_report(options.input.inputs, load);
  TextStyle style = style_of(stdout, options.color);
  style.columns = 0;  // 0: the text is already wrapped
  const std::optional<std::uint64_t> step = parse_number(options.step);
  const StyledText text = step ? StyledText(text_of_step(options, report, *step))
                               : summary_text(report, {.width = output_width(stdout),
                                                       .inputs = shell_words(options.input.inputs),
                                                       .is_full = options.full});
  write_text(stdout, styled(text, style));
  return options.input.exit_code(report);
}

}  // namespace

Action define_summary(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kSummaryFooter);
  auto options = std::make_shared<SummaryOptions>();
  options->input.add_options(line);
  line.option("--step", options->step,
              "What this step held at its peak, by category and line, and the step before beside "
              "it. INPUT is traces.")
      .value_name("N")
      .check(number_error);
  line.flag("--full", options->full,
            "All findings, holders and rows, in as many lines as they take.");
  line.flag("--json", options->json, "Print the report instead, as `analyze` does.");
  add_color_option(line, options->color);
  return [options] { return summarize(*options); };
}

}  // namespace gpumemtrace::tools
