// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>

#include "tools/base/failure.hpp"
#include "tools/base/messages.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/export/flame_graphs.hpp"
#include "tools/export/memory_viz.hpp"
#include "tools/export/minimalloc_csv.hpp"
#include "tools/export/parquet_folder.hpp"
#include "tools/export/perfetto_trace.hpp"
#include "tools/export/pprof_profile.hpp"
#include "tools/export/sqlite_database.hpp"
#include "tools/report_view/report_scope.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kExportFooter =
    R"TEXT(INPUT is a trace, a report or a folder of traces; several traces are one job.

Formats of stacks and sums, also from a report:
  collapsed   one line a stack, for flamegraph.pl and most viewers
  speedscope  a file for speedscope.app
  svg         a flame graph as a picture
  pprof       a profile for pprof: all costs at once
  perfetto    memory over time, steps, ranges and peaks for ui.perfetto.dev

Formats of single allocations, from traces:
  memory_viz  a snapshot for pytorch.org/memory_viz and torch.cuda._memory_viz
  sqlite      a database: allocations, stacks, steps, findings (docs/exports.md)
  parquet     the same tables as a folder of Parquet files, by rank, for DuckDB and Spark
  minimalloc  sizes and lives of blocks, for programs that pack them

Costs:
  peak       bytes held at the peak; of the framework's blocks where there are any
  leaked     bytes that the program lost
  allocated  bytes of all allocations; of the framework's blocks where there are any
  copied     bytes of all copies

Examples:
  gpumemtrace export job.gmt --to svg -o peak.svg
  gpumemtrace export job.gmt --to memory_viz -o job.pickle
  gpumemtrace export job.gmt --to sqlite -o job.db
  gpumemtrace export traces/ --to parquet -o tables
  gpumemtrace export report.json --to speedscope --cost copied -o copies.speedscope.json

Exit codes: 0 done, 1 an input cannot be read or holds no trace, 2 usage,
24 events are missing and --require-complete was given.)TEXT";

// So many of the allocations that ended are written where --last says nothing.
constexpr const char* kDefaultLast = "200000";

struct ExportOptions {
  InputOptions input;
  std::string format;
  std::string cost = "peak";
  std::string level;
  std::string by = "stack";
  std::string rank;
  std::string last;
  OutputOptions output;
};

using analyzer::Level;
using analyzer::rows::Report;

// What a format is asked for, besides the rows.
struct ExportRequest {
  StackExport stacks;
  std::uint64_t job_start_unix_ns = 0;  // where the times of the rows begin; 0: not known
};

// The times of a report begin with the first process of the job.
std::uint64_t start_of_job(const Report& report) {
  std::uint64_t first = 0;
  for (const analyzer::rows::Process& process : report.processes) {
    const std::uint64_t start = process.start_unix_ns.value_or(0);
    if (first == 0 || (start != 0 && start < first)) first = start;
  }
  return first;
}

// The level that was named; else the framework's where it has blocks, and the driver's elsewhere.
Level level_of_allocations(const Report& report, const StackExport& what) {
  for (std::size_t i = 0; i < analyzer::word_count(Level()); ++i) {
    if (what.level == name_of(static_cast<Level>(i))) return static_cast<Level>(i);
  }
  for (const analyzer::rows::AllocationHistory& history : *report.allocations) {
    const auto& rows = history.allocations;
    const bool has_blocks = std::any_of(
        rows.begin(), rows.end(), [](const auto& row) { return row.level == Level::kFramework; });
    if (has_blocks) return Level::kFramework;
  }
  return Level::kDriver;
}

// Of the only process of the job that has allocations.
std::string memory_viz_of(const Report& report, const ExportRequest& what) {
  std::vector<std::string> processes;
  for (const analyzer::rows::AllocationHistory& history : *report.allocations) {
    if (!history.allocations.empty()) processes.push_back(history.process);
  }
  if (processes.empty()) throw Failure("the job allocated nothing");
  if (processes.size() > 1) {
    throw Failure(
        "a snapshot is of one process, and the job has several; name one with --rank, or give its "
        "trace alone");
  }
  const bool is_framework = level_of_allocations(report, what.stacks) == Level::kFramework;
  return memory_viz_snapshot(report, processes.front(),
                             is_framework ? Level::kFramework : Level::kDriver,
                             what.job_start_unix_ns);
}

std::string minimalloc_of(const Report& report, const ExportRequest& what) {
  return minimalloc_csv(report, level_of_allocations(report, what.stacks));
}

template <auto kWrite>
std::string of_stacks(const Report& report, const ExportRequest& what) {
  return kWrite(report, what.stacks);
}

struct Format {
  const char* name;
  bool lists_allocations;
  // The content of the file; nothing for a format that is a folder of files.
  std::string (*write)(const Report& report, const ExportRequest& what);
};
constexpr std::array kFormats = {
    Format{"collapsed", false, of_stacks<collapsed_stacks>},
    Format{"speedscope", false, of_stacks<speedscope_profile>},
    Format{"svg", false, of_stacks<flame_graph_svg>},
    Format{"pprof", false, of_stacks<pprof_profile>},
    Format{"perfetto", false,
           [](const Report& report, const ExportRequest& what) {
             return perfetto_trace(report, what.job_start_unix_ns);
           }},
    Format{"memory_viz", true, memory_viz_of},
    Format{"sqlite", true,
           [](const Report& report, const ExportRequest&) { return sqlite_database(report); }},
    Format{"parquet", true, nullptr},
    Format{"minimalloc", true, minimalloc_of},
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

// Says on stderr what is not in the file.
void tell_what_is_left_out(const Report& report) {
  for (const analyzer::rows::AllocationHistory& history : *report.allocations) {
    if (!history.complete_from_ns) continue;
    say(format_text(
        "{}: of the allocations that ended, the last {} are written, from {} on; --last takes more",
        process_name(report, history.process),
        std::count_if(history.allocations.begin(), history.allocations.end(),
                      [](const auto& row) { return row.end_ns.has_value(); }),
        duration_text(*history.complete_from_ns)));
  }
}

void require_writable(const ExportOptions& options, const Format& format) {
  if (format.write == nullptr) {
    require_parquet_folder(options.output.output, options.output.force);
  } else {
    options.output.require_writable(options.input.inputs, options.input.naming);
  }
}

int export_job(const ExportOptions& options) {
  const auto* const format = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& row) {
    return options.format == row.name;
  });
  require_writable(options, *format);
  const auto* const measure =
      std::find_if(kCostMeasures.begin(), kCostMeasures.end(),
                   [&](const CostMeasure& row) { return options.cost == row.name; });
  LoadOptions load = options.input.load_options();
  if (format->lists_allocations) load.logged_allocations = parse_number(options.last);
  Report report = load_rows(options.input.inputs, load);
  const ExportRequest what = {{*measure, options.level, options.by == "module"},
                              start_of_job(report)};
  if (!options.rank.empty()) narrow(report, {parse_number(options.rank), {}});
  if (format->write == nullptr) {
    write_parquet_folder(report, options.output.output);
  } else {
    write_output(options.output.output, format->write(report, what));
  }
  if (report.allocations) tell_what_is_left_out(report);
  return to_int(options.input.require_complete && !is_complete(report) ? ExitCode::kIncomplete
                                                                       : ExitCode::kSuccess);
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
  add_rank_option(line, options->rank);
  options->last = kDefaultLast;
  line.option("--last", options->last,
              "Of single allocations, those that ended last, so many a process (default 200000); "
              "what lives to the end is always there.")
      .value_name("N")
      .check(complaint_about_number);
  options->output.add_options(line, "Write there instead of to stdout; a folder for parquet.");
  return [options] { return export_job(*options); };
}

}  // namespace gpumemtrace::tools
