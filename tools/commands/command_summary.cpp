// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include "analyzer/base/input_error.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/summary/summary_text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kSummaryFooter =
    R"TEXT(INPUT is a trace, a report or a folder of traces; several traces are one job.

Examples:
  gpumemtrace summary job.gmt
  gpumemtrace summary report.json

Exit codes: 0 done, 1 an input cannot be read or holds no trace, 2 usage,
24 events are missing and --require-complete was given.)TEXT";

[[noreturn]] void refuse(const InputOptions& options, const std::exception& error) {
  throw Failure(
      format_text("{} is no complete report ({}); make it again with `gpumemtrace "
                  "analyze`",
                  options.inputs.front().string(), error.what()));
}

int summarize(const InputOptions& options) {
  const Json report = options.load();
  try {
    write_text(stdout, summary_text(report));
    return options.exit_code(report);
  } catch (const analyzer::JsonError& error) {
    refuse(options, error);
  } catch (const analyzer::InputError& error) {
    refuse(options, error);
  }
}

}  // namespace

Action define_summary(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kSummaryFooter);
  auto options = std::make_shared<InputOptions>();
  options->add_options(line);
  return [options] { return summarize(*options); };
}

}  // namespace gpumemtrace::tools
