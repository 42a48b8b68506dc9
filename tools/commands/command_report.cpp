// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "analyzer/base/input_error.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/page/report_page.hpp"
#include "tools/traces/trace_files.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    R"TEXT(INPUT is a trace, a report or a folder of traces; several traces are one job.
The page is one file that needs no network and no server; any browser opens it (docs/page.md).

Examples:
  gpumemtrace report job.gmt -o job.html
  gpumemtrace report traces/ -o job.html --force
  gpumemtrace report job.gmt --redact -o for_others.html

Exit codes: 0 done, 1 an input cannot be read or holds no trace, or the output is there already,
2 usage, 24 events are missing and --require-complete was given.)TEXT";

struct ReportOptions {
  InputOptions input;
  std::string output;
  bool is_forced = false;
};

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

// Whether `output` is an input, or a trace or ring among them.
bool is_input(const fs::path& output, const std::vector<fs::path>& inputs) {
  std::vector<fs::path> files = inputs;
  try {
    const auto traces = trace::find_traces(inputs);
    files.insert(files.end(), traces.begin(), traces.end());
  } catch (const trace::TraceError&) {
    // That is said when they are read.
  }
  return std::any_of(files.begin(), files.end(), [&](const fs::path& file) {
    return is_same_file(output, file) || is_same_file(output, ring_of(file));
  });
}

// Before the work, which may take long.
void require_writable(const ReportOptions& options) {
  const fs::path output = options.output;
  std::error_code ignored;
  if (!fs::is_regular_file(output, ignored)) return;
  if (is_input(output, options.input.inputs)) {
    throw Failure(format_text("{} is an input; choose another name for the page", options.output));
  }
  if (!options.is_forced) {
    throw Failure(
        format_text("{} is there already; choose another name, or give --force to replace "
                    "it",
                    options.output));
  }
}

[[noreturn]] void refuse(const ReportOptions& options, const std::exception& error) {
  throw Failure(
      format_text("{} is no complete report ({}); make it again with `gpumemtrace analyze`",
                  options.input.inputs.front().string(), error.what()));
}

int write_report(const ReportOptions& options) {
  require_writable(options);
  const Json report = options.input.load();
  try {
    write_output(options.output, report_page(report));
  } catch (const analyzer::JsonError& error) {
    refuse(options, error);
  } catch (const analyzer::InputError& error) {
    refuse(options, error);
  }
  return options.input.exit_code(report);
}

}  // namespace

Action define_report(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kFooter);
  auto options = std::make_shared<ReportOptions>();
  options->input.add_options(line);
  line.option("-o,--output", options->output, "Write the page there.")
      .value_name("FILE")
      .required();
  line.flag("--force", options->is_forced, "Replace a file that is there already.");
  return [options] { return write_report(*options); };
}

}  // namespace gpumemtrace::tools
