// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include "analyzer/symbolize.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kSymbolizeFooter =
    R"TEXT(Run it where the program ran, or where its files are: a trace holds addresses, and their
names stand in the program, its libraries and their debug information. Only files of the recorded
build are read.

Examples:
  gpumemtrace symbolize job.gmt -o job.symbols.json
  gpumemtrace analyze job.gmt --symbols job.symbols.json -o report.json

Exit codes: 0 done, 1 an input cannot be read or holds no trace, 2 usage.)TEXT";

struct SymbolizeOptions {
  std::vector<std::filesystem::path> inputs;
  NamingOptions naming;
  OutputOptions output;
};

// A text at the begin of every side-car file.
constexpr std::string_view kSideCarMark = "gpumemtrace-symbols";

int symbolize(const SymbolizeOptions& options) {
  options.output.require_writable(options.inputs, options.naming, kSideCarMark);
  const analyzer::SymbolizeResult result =
      analyzer::symbolize(options.inputs, symbol_options(options.naming));
  write_output(options.output.output, result.side_car);
  print_text(stderr, "gpumemtrace: named {} of {} places in native code\n",
             format_count(result.named_places), format_count(result.places));
  return to_int(ExitCode::kSuccess);
}

}  // namespace

Action define_symbolize(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kSymbolizeFooter);
  auto options = std::make_shared<SymbolizeOptions>();
  line.option("TRACE", options->inputs, "Traces (*.gmt) and folders of traces.")
      .required()
      .value_name("");
  options->output.add_options(line, "Write the names there instead of to stdout.");
  add_symbol_options(line, options->naming);
  return [options] { return symbolize(*options); };
}

}  // namespace gpumemtrace::tools
