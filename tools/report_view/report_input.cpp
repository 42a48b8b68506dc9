// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/report_input.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>

#include "analyzer/analyze.hpp"
#include "analyzer/base/words.hpp"
#include "analyzer/json/report_json.hpp"
#include "analyzer/json/row_values.hpp"
#include "analyzer/replay/allocator_settings.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/input_file.hpp"
#include "tools/base/messages.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/terminal.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/input_files.hpp"
#include "tools/report_view/job_parts.hpp"
#include "tools/report_view/partial_file.hpp"
#include "tools/report_view/printable_report.hpp"
#include "tools/report_view/recorded_jobs.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;
using analyzer::rows::Report;

// Names of rows of losses[] in the report.
constexpr const char* kPaused = "paused";
constexpr const char* kLeftOut = "left_out_traces";

// JSON begins with a brace; a trace begins with its own magic.
bool looks_like_json(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::ifstream file(path);
  char first = '\0';
  return static_cast<bool>(file >> first) && first == '{';
}

[[noreturn]] void refuse_report(const fs::path& report, const char* why) {
  throw Failure(format_text("{} is a report{}", report.string(), why), ExitCode::kUsage);
}

// Throws Failure if an option needs the traces: a report keeps its names, thresholds and groups.
void refuse_options_for_traces(const fs::path& report, const LoadOptions& options) {
  const NamingOptions& naming = options.naming;
  if (options.thresholds) {
    refuse_report(report,
                  ", which was made with its own thresholds; give the traces with --threshold");
  }
  if (!naming.groups.empty()) {
    refuse_report(report, ", which has its groups of ranks already; give the traces with --groups");
  }
  if (!naming.symbols.empty() || naming.use_debuginfod) {
    refuse_report(report,
                  ", which has its names already; give the traces with --symbols or --debuginfod");
  }
  const bool asks = options.what_if && !options.what_if->settings.empty();
  if (asks)
    refuse_report(report, ", which has its answers already; give the traces with --setting");
  if (options.logged_allocations) {
    refuse_report(report, ", which has sums and no single allocations; give the traces");
  }
  if (!naming.owners.empty()) {
    refuse_report(report, ", which was made with its own owners; give the traces with --owners");
  }
  if (naming.timeline_points) {
    refuse_report(report,
                  ", whose timelines are as they are; give the traces with --timeline-points");
  }
  if (naming.from_ns || naming.to_ns) {
    refuse_report(report, ", which has the times that it has; give the traces");
  }
  if (naming.at_ns || naming.blocks_at_peak) {
    refuse_report(report, ", whose blocks are as they are; give the traces with --at or --blocks");
  }
}

// The saved report among the inputs, which must be the only input; nullptr if all inputs are traces
// and partial reports.
const fs::path* find_report(const std::vector<fs::path>& inputs, const LoadOptions& options) {
  const auto report = std::ranges::find_if(inputs, [](const fs::path& input) {
    return looks_like_json(input) && !is_partial_report(input);
  });
  if (report == inputs.end()) return nullptr;
  if (inputs.size() > 1) {
    refuse_report(
        *report,
        " and cannot be joined with other inputs; give the traces of one job, or one report");
  }
  refuse_options_for_traces(*report, options);
  return &*report;
}

struct ReportMark : analyzer::FileMark {
  std::optional<bool> is_redacted;

  static void fields(auto& self, auto& v) {
    FileMark::fields(self, v);
    v.added("redacted", self.is_redacted);
  }
};

[[noreturn]] void refuse_format(const fs::path& path) {
  throw Failure(
      format_text("{} is JSON but no gpumemtrace report; give a trace (*.gmt) or a report of "
                  "`gpumemtrace analyze`",
                  path.string()));
}

ReportMark mark_of(const fs::path& path, const std::string& text) {
  try {
    return analyzer::row_of_text<ReportMark>(text, "report");
  } catch (const analyzer::JsonError&) {
    throw Failure(
        format_text("{} is no complete JSON; make the report again with `gpumemtrace analyze "
                    "TRACE -o {}`",
                    path.string(), path.filename().string()));
  } catch (const analyzer::InputError&) {
    refuse_format(path);
  }
}

// Throws Failure if the file has another format or version, or was not redacted as asked for.
void require_readable(const fs::path& path, const ReportMark& mark, const NamingOptions& naming) {
  if (mark.format != Report::kFormat) refuse_format(path);
  if (mark.version != Report::kVersion) {
    throw Failure(
        format_text("{} is a report of another version than {}; read it with the gpumemtrace that "
                    "made it, or analyze the trace again",
                    path.string(), Report::kVersion));
  }
  if (naming.redact && !mark.is_redacted) {
    refuse_report(path, ", which was made with all names; give the traces with --redact");
  }
}

Report read_report(const fs::path& path, const NamingOptions& naming) {
  const std::string text = text_of_file(path);
  require_readable(path, mark_of(path, text), naming);
  try {
    return analyzer::report_of_text(text);
  } catch (const analyzer::InputError& error) {
    throw Failure(
        format_text("{} is no complete report ({}); make it again with `gpumemtrace analyze`",
                    path.string(), error.what()));
  }
}

// Calls analyze(inputs, options) of the analyzer.
template <class Analyze>
auto analyze_traces(const std::vector<fs::path>& inputs, const LoadOptions& load,
                    const Analyze& analyze) {
  try {
    std::optional<ProgressLine> line;
    if (load.allows_progress_line) line.emplace(load.forces_progress_line);
    const NamingOptions& naming = load.naming;
    analyzer::Options options;
    if (load.thresholds) options.thresholds = *load.thresholds;
    if (line) options.progress = [&line](double fraction) { line->update(fraction); };
    options.symbols = symbol_options(naming);
    options.owner_files = naming.owners;
    options.redact = naming.redact;
    options.groups = naming.groups;
    options.timeline_points = naming.timeline_points;
    if (naming.from_ns || naming.to_ns) options.window = {naming.from_ns.value_or(0), naming.to_ns};
    options.blocks_at_peak = naming.blocks_at_peak;
    options.blocks_at_ns = naming.at_ns;
    options.what_if = load.what_if;
    options.logged_allocations = load.logged_allocations;
    return analyze(inputs, options);
  } catch (const analyzer::InputError& error) {
    throw Failure(error.what());
  } catch (const analyzer::replay::SettingError& error) {
    throw Failure(format_text("--setting: {}", error.what()), ExitCode::kUsage);
  } catch (const trace::TraceError& error) {
    throw Failure(error.what());
  }
}

// The partial report of traces, made with the same options as `other`, so that both can be merged.
analyzer::rows::Partial analyze_alike(const std::vector<InputTrace>& traces,
                                      const LoadOptions& load,
                                      const analyzer::rows::Partial& other) {
  const auto analyze = [&](const std::vector<fs::path>& paths, analyzer::Options options) {
    const analyzer::Options alike = analyzer::options_of(other);
    options.thresholds = alike.thresholds;
    options.timeline_points = alike.timeline_points;
    options.groups = alike.groups;
    return analyzer::analyze_partially(paths, options);
  };
  analyzer::rows::Partial partial = analyze_traces(paths_of(traces), load, analyze);
  partial.source = traces.front().path.string();
  return partial;
}

// Merges the partial reports with each other and with the analysis of the traces, if there are any.
Report join_parts(JobParts parts, const LoadOptions& load) {
  for (const auto& partial : parts.partials) refuse_options_for_traces(partial.source, load);
  if (!parts.traces.empty()) {
    // The analysis of the traces goes in front of the partial reports: if two parts have the same
    // trace by the same path, merge() uses the first one.
    parts.partials.insert(parts.partials.begin(),
                          analyze_alike(parts.traces, load, parts.partials.front()));
  }
  try {
    return analyzer::merge(std::move(parts.partials), load.naming.redact);
  } catch (const analyzer::InputError& error) {
    throw Failure(error.what());
  }
}

Report report_of(JobParts parts, const LoadOptions& load) {
  return parts.partials.empty() ? analyze_traces(paths_of(parts.traces), load, analyzer::analyze)
                                : join_parts(std::move(parts), load);
}

// The report of the traces, without those that were found in folders and that a later run replaced;
// a message on stderr names them.
Report analyze_newest(const std::vector<fs::path>& inputs, const LoadOptions& options) {
  JobParts parts = read_parts(inputs);
  const std::vector<InputTrace> all_traces = traces_of(parts, inputs);
  Report all = report_of(std::move(parts), options);
  if (options.all_runs) return all;
  const StaleTraces stale = find_stale(all_traces, all);
  if (stale.keys.empty()) return all;
  if (options.tell_left_out) say("left out " + stale.text);
  parts = read_parts(inputs);  // read again: report_of() has moved the parts out
  leave_out(stale, parts);
  Report report = report_of(std::move(parts), options);
  report.losses.push_back(
      {std::string(kLeftOut), stale.keys.size(), analyzer::Severity::kWarning, stale.text + "."});
  return report;
}

bool is_only_paused(const std::vector<analyzer::rows::PublicText>& reasons) {
  return reasons.size() == 1 && reasons.front() == kPaused;
}

// A loss of a trace in words: "3,120 events were dropped", "missing ring".
std::string loss_text(const analyzer::rows::Trace& trace, const std::string& name) {
  if (name.starts_with("dropped_") && trace.dropped != 0) {
    return count_of(trace.dropped, "event was dropped", "events were dropped");
  }
  return analyzer::in_words(name);
}

std::string remedy_of(const Report& report, const std::string& name) {
  for (const analyzer::rows::Loss& loss : report.losses) {
    if (loss.name == name) return loss.remedy;
  }
  return {};
}

}  // namespace

bool is_without_trace(const std::vector<fs::path>& inputs) {
  for (const fs::path& input : inputs) {
    std::error_code error;
    if (!fs::is_directory(input, error)) return false;
    try {
      (void)find_input_files({input});
      return false;
    } catch (const trace::NoTrace&) {
      continue;
    } catch (const trace::TraceError&) {
      return false;  // the analysis of the input reports the error
    }
  }
  return true;
}

analyzer::SymbolOptions symbol_options(const NamingOptions& naming) {
  analyzer::SymbolOptions options;
  options.use_debuginfod = naming.use_debuginfod;
  for (const fs::path& path : naming.symbols) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      throw Failure(format_text("--symbols {}: there is no such file or folder", path.string()));
    }
    (fs::is_directory(status) ? options.folders : options.side_cars).push_back(path);
  }
  return options;
}

Report load_report(const std::vector<fs::path>& inputs, const LoadOptions& options) {
  const fs::path* const file = find_report(inputs, options);
  Report report =
      file == nullptr ? analyze_newest(inputs, options) : read_report(*file, options.naming);
  narrow(report, options.scope);
  return report;
}

analyzer::rows::Partial load_traces_partially(const std::vector<fs::path>& inputs,
                                              const LoadOptions& options) {
  if (const fs::path* const file = find_report(inputs, options)) {
    throw Failure(format_text("{} is no trace; --partial is for traces", file->string()),
                  ExitCode::kUsage);
  }
  analyzer::rows::Partial partial = analyze_traces(inputs, options, analyzer::analyze_partially);
  if (partial.processes.empty()) throw Failure(partial.unreadable_traces.front().reason);
  if (options.all_runs) return partial;
  const std::set<fs::path> named(inputs.begin(), inputs.end());
  std::vector<InputTrace> traces;
  for (const fs::path& trace : trace::find_traces(inputs)) {
    traces.push_back({trace, "", named.contains(trace)});
  }
  const StaleTraces stale = find_stale(traces, partial.report);
  if (stale.keys.empty()) return partial;
  throw Failure("a partial report is of one run; name its traces, or give --all-runs: " +
                stale.text);
}

Report load_merged(const std::vector<fs::path>& inputs, const LoadOptions& options) {
  if (const fs::path* const file = find_report(inputs, options)) {
    throw Failure(format_text(
        "{} is no partial report; make one with `gpumemtrace analyze --partial`", file->string()));
  }
  return load_report(inputs, options);
}

std::string report_json(const std::vector<fs::path>& inputs, const LoadOptions& options,
                        const Report& report) {
  const fs::path* const file = find_report(inputs, options);
  return file != nullptr && options.scope.is_whole() ? text_of_file(*file)
                                                     : analyzer::to_text(report);
}

Report load_printable_report(const std::vector<fs::path>& inputs, const LoadOptions& options) {
  return printable(load_report(inputs, options));
}

std::vector<std::string> missing_events(const Report& report) {
  std::vector<std::string> sentences;
  for (const analyzer::rows::Trace& trace : report.traces) {
    if (trace.complete || is_only_paused(trace.incomplete_because)) continue;
    const std::string whose =
        format_text("{} ({})", process_name(report, trace.process), trace.file);
    std::set<std::string> told;  // all kinds of drops have one text, which is listed once
    for (const std::string& name : trace.incomplete_because) {
      const std::string what = loss_text(trace, name);
      if (name == kPaused || !told.insert(what).second) continue;
      sentences.push_back(format_text("{}: {}. {}", whose, what, remedy_of(report, name)));
    }
    if (told.empty()) sentences.push_back(whose + ": see losses in the report");
  }
  for (const analyzer::rows::UnreadableTrace& trace : report.coverage.unreadable_traces) {
    sentences.push_back(format_text("{}: {}", trace.file, trace.reason));
  }
  return sentences;
}

std::string missing_in_short(const Report& report, const std::optional<std::string>& process) {
  std::set<std::string> told;
  for (const analyzer::rows::Trace& trace : report.traces) {
    if (process && trace.process != *process) continue;
    for (const std::string& name : trace.incomplete_because) {
      if (name != kPaused) told.insert(loss_text(trace, name));
    }
  }
  if (!process && !report.coverage.unreadable_traces.empty()) told.insert("unreadable traces");
  return joined(told);
}

bool is_complete(const Report& report) {
  return report.coverage.unreadable_traces.empty() &&
         std::ranges::all_of(report.traces, [](const analyzer::rows::Trace& trace) {
           return trace.complete || is_only_paused(trace.incomplete_because);
         });
}

std::string left_out_traces(const Report& report) { return remedy_of(report, kLeftOut); }

bool was_paused(const Report& report) {
  return std::ranges::any_of(report.traces, [](const analyzer::rows::Trace& trace) {
    const auto& reasons = trace.incomplete_because;
    return std::ranges::find(reasons, kPaused) != reasons.end();
  });
}

std::optional<std::uint64_t> only_sums_until_ns(const Report& report) {
  std::optional<std::uint64_t> until_ns;
  for (const analyzer::rows::PartialRules& row : report.coverage.partial_rules) {
    until_ns = std::max<std::uint64_t>(until_ns.value_or(0), row.from_ns);
  }
  return until_ns;
}

}  // namespace gpumemtrace::tools
