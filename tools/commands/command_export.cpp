// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>

#include "tools/base/output_file.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/export/stack_export.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kExportFooter =
    R"TEXT(INPUT is a trace, a report or a folder of traces; several traces are one job.

Formats:
  collapsed   one line a stack, for flamegraph.pl and most viewers
  speedscope  a file for speedscope.app

Costs:
  peak       bytes held at the peak; of the framework's blocks where there are any
  leaked     bytes that the program lost
  allocated  bytes of all allocations; of the framework's blocks where there are any
  copied     bytes of all copies

Examples:
  gpumemtrace export job.gmt --to collapsed | flamegraph.pl > peak.svg
  gpumemtrace export report.json --to speedscope --cost copied -o copies.speedscope.json

Exit codes: 0 done, 1 an input cannot be read or holds no trace, 2 usage,
24 events are missing and --require-complete was given.)TEXT";

struct Format {
  const char* name;
  std::string (*write)(const Json& report, const StackExport& what);
};
constexpr std::array kFormats = {
    Format{"collapsed", collapsed_stacks},
    Format{"speedscope", speedscope_profile},
};

struct ExportOptions {
  InputOptions input;
  std::string format;
  std::string cost = "peak";
  std::string level;
  std::string by = "stack";
  OutputOptions output;
};

template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// One of `names`, which the help lists.
Option add_choice(CommandLine& line, const std::string& flag, std::string& value,
                  const std::vector<std::string>& names, const std::string& help) {
  return line.option(flag, value, help).value_name(join_choices(names)).one_of(names);
}

int export_report(const ExportOptions& options) {
  options.output.require_writable(options.input.inputs, options.input.naming);
  const auto* const format = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& row) {
    return options.format == row.name;
  });
  const auto* const measure =
      std::find_if(kCostMeasures.begin(), kCostMeasures.end(),
                   [&](const CostMeasure& row) { return options.cost == row.name; });
  return options.input.use_report([&](const Json& report) {
    write_output(options.output.output,
                 format->write(report, {*measure, options.level, options.by == "module"}));
  });
}

}  // namespace

Action define_export(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kExportFooter);
  auto options = std::make_shared<ExportOptions>();
  options->input.add_options(line);
  add_choice(line, "--to", options->format, names_of(kFormats), "The format to write.").required();
  add_choice(line, "--cost", options->cost, names_of(kCostMeasures),
             "What the width of a frame stands for (default peak).");
  add_choice(line, "--level", options->level,
             {"driver", "pool", "managed", "host", "framework", "imported"},
             "Only memory of this allocator layer.");
  add_choice(line, "--by", options->by, {"stack", "module"},
             "What the frames are: functions, or layers of a PyTorch model (default stack).");
  options->output.add_options(line, "Write there instead of to stdout.");
  return [options] { return export_report(*options); };
}

}  // namespace gpumemtrace::tools
