// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "tools/base/failure.hpp"
#include "tools/base/messages.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/export/exports.hpp"
#include "tools/export/selection.hpp"
#include "tools/report_view/job_text.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_scope.hpp"
#include "tools/report_view/step_moment.hpp"

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
  perfetto_archive
              the same as a tar archive: a file a process, a machine a host

Formats of single allocations, from traces:
  memory_viz  a snapshot for pytorch.org/memory_viz and torch.cuda._memory_viz
  sqlite      a database: allocations, stacks, steps, findings (docs/exports.md)
  parquet     the same tables as a folder of Parquet files by rank, for DuckDB,
              ClickHouse and others; --job adds a job to a folder

Costs:
  peak       bytes held at the peak
  leaked     bytes that the program lost
  allocated  bytes of all allocations
  copied     bytes of all copies
Of peak and allocated, those of the framework's blocks where there are any.

Examples:
  gpumemtrace export job.gmt --format svg -o peak.svg
  gpumemtrace export job.gmt --format memory_viz -o job.pickle
  gpumemtrace export job.gmt --format sqlite -o job.db
  gpumemtrace export traces/ --format parquet -o tables
  gpumemtrace export node7/ --format parquet --job 4711 -o all-jobs
  gpumemtrace export report.json --format speedscope --cost copied -o c.json

Exit codes: 0 done, 1 an input cannot be read or holds no trace, 2 usage,
24 events are missing and --require-complete was given.)TEXT";

// The number of most recently ended allocations that are exported if --last is not given.
constexpr const char* kDefaultLast = "200000";

struct ExportOptions {
  InputOptions input;
  std::string format;
  std::string cost = "peak";
  std::string level;
  std::string by = "stack";
  NamedTimes times;
  std::string last;
  std::string job;
  OutputOptions output;

  [[nodiscard]] ParquetTarget parquet_target() const { return {output.output, job, output.force}; }
};

using analyzer::Level;
using analyzer::rows::Report;

// The values of --by, each with the kind of frames that it selects.
struct NamedFrames {
  const char* name;
  FrameKind frames;
};
constexpr std::array kFrameKinds = {
    NamedFrames{"stack", FrameKind::kAll},
    NamedFrames{"user", FrameKind::kUsers},
    NamedFrames{"module", FrameKind::kLayers},
};

// Options that a format's writer needs in addition to the report.
struct ExportRequest {
  StackExport stacks;
  std::uint64_t job_start_unix_ns = 0;      // Unix time of the report's time 0; 0: unknown
  std::string selection;                    // the user's options that select a part of the job
  std::uint64_t end_ns = TimeSpan().to_ns;  // end of the selected time
};

std::optional<Level> level_named(std::string_view name) {
  for (std::size_t i = 0; i < analyzer::word_count(Level()); ++i) {
    if (name == name_of(static_cast<Level>(i))) return static_cast<Level>(i);
  }
  return std::nullopt;
}

// The allocator layer that --level names; else the framework if it has blocks, or else the driver.
Level level_of_allocations(const Report& report, const StackExport& what) {
  if (const std::optional<Level> named = level_named(what.level)) return *named;
  for (const analyzer::rows::AllocationHistory& history : *report.allocations) {
    const auto& rows = history.allocations;
    const bool has_blocks =
        std::ranges::any_of(rows, [](const auto& row) { return row.level == Level::kFramework; });
    if (has_blocks) return Level::kFramework;
  }
  return Level::kDriver;
}

// PyTorch's snapshot format, for the only process of the job that has allocations, up to the end of
// the selected part.
std::string memory_viz_of(const Report& whole, const ExportRequest& what) {
  Report part;
  const bool ends_early = what.end_ns != TimeSpan().to_ns;
  if (ends_early) {
    part = whole;
    end_lives_at(part, what.end_ns);
  }
  const Report& report = ends_early ? part : whole;
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

template <auto kWrite>
std::string of_stacks(const Report& report, const ExportRequest& what) {
  return kWrite(report, what.stacks);
}

// Reasons why a format cannot follow --at (moment), --from, --until and --step (part), and --last;
// nullptr for an option that it can follow.
struct UnsupportedOptionReasons {
  const char* why_no_moment;
  const char* why_no_part;
  const char* why_no_last;
};
constexpr const char* kNoAllocations = "it has no single allocations";
constexpr UnsupportedOptionReasons kAllocations = {nullptr, nullptr, nullptr};
constexpr UnsupportedOptionReasons kTimelines = {
    "it shows time; name a part of it with --from and --until", nullptr, kNoAllocations};
constexpr UnsupportedOptionReasons kStacks = {
    nullptr, "its sums are of the whole run; name a moment with --at", kNoAllocations};
constexpr const char* kWholeRun =
    "it has all costs of the whole run; svg, speedscope and collapsed take --at";
constexpr UnsupportedOptionReasons kAllCosts = {kWholeRun, kWholeRun, kNoAllocations};

struct Format {
  const char* name;
  UnsupportedOptionReasons unsupported;
  // True: rows of other levels are removed before writing; false: the writer selects the level.
  bool keeps_level;
  bool is_binary;
  // Returns the content of the file; nullptr for a format that is a folder of files.
  std::string (*write)(const Report& report, const ExportRequest& what);
};
constexpr std::array kFormats = {
    Format{"collapsed", kStacks, false, false, of_stacks<collapsed_stacks>},
    Format{"speedscope", kStacks, false, false, of_stacks<speedscope_profile>},
    Format{"svg", kStacks, false, false, of_stacks<flame_graph_svg>},
    Format{"pprof", kAllCosts, false, true, of_stacks<pprof_profile>},
    Format{"perfetto", kTimelines, true, true,
           [](const Report& report, const ExportRequest& what) {
             return perfetto_trace(report, what.job_start_unix_ns);
           }},
    Format{"perfetto_archive", kTimelines, true, true,
           [](const Report& report, const ExportRequest& what) {
             return perfetto_archive(report, what.job_start_unix_ns);
           }},
    Format{"memory_viz", kAllocations, false, true, memory_viz_of},
    Format{"sqlite", kAllocations, true, true,
           [](const Report& report, const ExportRequest& what) {
             return sqlite_database(report, what.selection);
           }},
    Format{"parquet", kAllocations, true, true, nullptr},
};

template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// Adds an option whose value must be one of `names`; the help lists them.
Option add_choice(CommandLine& line, const std::string& flag, std::string& value,
                  const std::vector<std::string>& names, const std::string& help) {
  return line.option(flag, value, help).value_name(joined(names, "|")).one_of(names);
}

// Says on stderr which allocations the file lacks.
void warn_left_out(const Report& report) {
  for (const analyzer::rows::AllocationHistory& history : *report.allocations) {
    if (!history.complete_from_ns) continue;
    say(format_text(
        "{}: of the allocations that ended, the last {} are written, from {} on; --last takes more",
        process_name(report, history.process),
        std::ranges::count_if(history.allocations,
                              [](const auto& row) { return row.end_ns.has_value(); }),
        duration_text(*history.complete_from_ns)));
  }
}

bool lists_allocations(const Format& format) { return format.unsupported.why_no_last == nullptr; }

// Throws Failure for an option that the format cannot follow, and for options that exclude each
// other.
void refuse_unusable_options(const ExportOptions& options, const Format& format) {
  const auto require = [&](bool is_given, const char* option, const char* why_not) {
    if (!is_given || why_not == nullptr) return;
    throw Failure(format_text("{} has no meaning for {}: {}", option, format.name, why_not),
                  ExitCode::kUsage);
  };
  const NamedTimes& times = options.times;
  require(!times.at.empty(), "--at", format.unsupported.why_no_moment);
  require(times.has_part(), "--from and --until", format.unsupported.why_no_part);
  require(!times.step.empty(), "--step", format.unsupported.why_no_part);
  require(!options.last.empty(), "--last", format.unsupported.why_no_last);
  require(!options.job.empty(), "--job",
          format.write == nullptr ? nullptr : "its file is of one job");
  if (times.at.empty()) return;
  if (times.has_part() || !times.step.empty()) {
    throw Failure(
        "--at is one moment, --from, --until and --step are a part of the run; give either",
        ExitCode::kUsage);
  }
  if (options.cost != "peak") {
    throw Failure("with --at the cost is what was live then; leave --cost out", ExitCode::kUsage);
  }
}

// The span of time that the user selected; nullopt: the whole recording.
std::optional<TimeSpan> span_of(const ExportOptions& options) {
  const NamedTimes& times = options.times;
  if (times.at.empty() && !times.has_part()) return std::nullopt;
  TimeSpan span;
  span.from_ns = parse_time(times.at.empty() ? times.from : times.at).value_or(0);
  span.to_ns = parse_time(times.at.empty() ? times.until : times.at).value_or(span.to_ns);
  return span;
}

// The options that select a part of the job: "--level framework --from 1s --until 2s".
std::string text_of_selection(const ExportOptions& options) {
  std::string text;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) text += format_text("{}{} {}", text.empty() ? "" : " ", option, value);
  };
  add("--level", options.level);
  add("--rank", options.input.rank);
  add("--device", options.input.device);
  add("--at", options.times.at);
  add("--from", options.times.from);
  add("--until", options.times.until);
  add("--last", options.last);
  return text;
}

// With --at, formats that sum allocations instead of listing them ask for the blocks that are live
// at that moment (at_ns). Otherwise `span` is a part of the run, which --at makes a single moment.
LoadOptions load_options(const ExportOptions& options, const Format& format,
                         const std::optional<TimeSpan>& span) {
  LoadOptions load = options.input.load_options();
  if (lists_allocations(format)) {
    load.logged_allocations = parse_number(options.last.empty() ? kDefaultLast : options.last);
  }
  if (!span) return load;
  if (!options.times.at.empty() && !lists_allocations(format)) {
    load.naming.at_ns = span->from_ns;
  } else {
    load.naming.from_ns = span->from_ns;
    load.naming.to_ns = span->to_ns;
  }
  return load;
}

// Removes levels and times that the user did not select. If --at was given for a format that sums
// allocations, the blocks that were live then (report.blocks) replace the costs of the run.
void apply_level_and_time(Report& report, const ExportOptions& options, const Format& format,
                          const std::optional<TimeSpan>& span) {
  if (report.blocks) take_costs_of_moment(report);
  if (format.keeps_level && !options.level.empty()) {
    keep_level(report, level_named(options.level).value());
  }
  if (span && !report.blocks) keep_time(report, *span);
}

void require_writable(const ExportOptions& options, const Format& format) {
  const bool goes_to_stdout = is_stdout(options.output.output);
  if (goes_to_stdout && format.is_binary && isatty(STDOUT_FILENO) != 0) {
    throw Failure(format_text("{} is no text for a terminal; name a file with -o", format.name),
                  ExitCode::kUsage);
  }
  if (format.write == nullptr) {
    require_parquet_folder(options.parquet_target());
  } else {
    options.output.require_writable(options.input.inputs, options.input.naming);
  }
}

int export_job(ExportOptions& options) {
  const auto* const format = std::ranges::find(kFormats, options.format, &Format::name);
  refuse_unusable_options(options, *format);
  require_writable(options, *format);
  options.times.resolve(options.input.inputs, options.input.load_options());
  const auto* const measure = std::ranges::find(kCostMeasures, options.cost, &CostMeasure::name);
  const std::optional<TimeSpan> span = span_of(options);
  LoadOptions load = load_options(options, *format, span);
  // --rank and --device are applied after loading, because times count from the start of the whole
  // job.
  const ReportScope scope = std::exchange(load.scope, {});
  Report report = load_printable_report(options.input.inputs, load);
  const auto* const by = std::ranges::find(kFrameKinds, options.by, &NamedFrames::name);
  ExportRequest what = {{*measure, options.level, by->frames},
                        job_start_unix_ns(report).value_or(0),
                        text_of_selection(options),
                        span ? span->to_ns : TimeSpan().to_ns};
  if (report.blocks) what.stacks.measure.name = "live";
  narrow(report, scope);
  apply_level_and_time(report, options, *format, span);
  if (format->write == nullptr) {
    write_parquet_folder(report, what.selection, options.parquet_target());
  } else {
    write_output(options.output.output, format->write(report, what));
  }
  if (report.allocations) warn_left_out(report);
  for (const std::string& sentence : missing_events(report)) say(sentence);
  return options.input.exit_code(report);
}

}  // namespace

Action define_export(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kExportFooter);
  auto options = std::make_shared<ExportOptions>();
  options->input.add_options(line);
  const std::vector<std::string> formats = names_of(kFormats);
  add_choice(line, "--format,--to", options->format, formats,
             "The format to write.\nFormats: " + joined(formats))
      .required()
      .value_name("FORMAT");
  add_choice(line, "--cost", options->cost, names_of(kCostMeasures),
             "What the width of a frame stands for (default peak).");
  add_choice(line, "--level", options->level,
             {"driver", "pool", "managed", "host", "framework", "imported"},
             "Only memory of this allocator layer.");
  add_choice(line, "--by", options->by, names_of(kFrameKinds),
             "What the frames are: functions, those in files of the user alone, or layers of a "
             "PyTorch model (default stack).");
  add_time_options(line, options->times, {"Only what was there", "--until", "Only what was live"});
  line.option("--last", options->last,
              "Of single allocations, those that ended last, so many a process (default 200000); "
              "what lives to the end is always there.")
      .value_name("N")
      .check(number_error);
  line.option("--job", options->job,
              "For parquet, the job's name in the tables. It is added to a folder of other jobs.")
      .value_name("NAME");
  options->output.add_options(line, "Write there instead of to stdout; a folder for parquet.");
  return [options] { return export_job(*options); };
}

}  // namespace gpumemtrace::tools
