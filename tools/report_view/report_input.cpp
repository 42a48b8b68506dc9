// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/report_input.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "analyzer/analyze.hpp"
#include "analyzer/json/report_json.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/progress_line.hpp"
#include "tools/base/text.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReportFormat = "gpumemtrace-report";
constexpr int kReportVersion = 1;

// JSON begins with a brace; a trace begins with its own magic.
bool looks_like_json(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::ifstream file(path);
  char first = '\0';
  return static_cast<bool>(file >> first) && first == '{';
}

[[noreturn]] void refuse(const fs::path& report, const char* why) {
  throw Failure(format_text("{} is a report{}", report.string(), why), ExitCode::kUsage);
}

// The report among the inputs, which then is the only one; nullptr where all are traces.
const fs::path* find_report(const std::vector<fs::path>& inputs,
                            const analyzer::Thresholds& thresholds) {
  const auto report = std::find_if(inputs.begin(), inputs.end(), looks_like_json);
  if (report == inputs.end()) return nullptr;
  if (inputs.size() > 1) {
    refuse(*report,
           " and cannot be joined with other inputs; give the traces of one job, or one report");
  }
  if (!(thresholds == analyzer::Thresholds())) {
    refuse(*report, ", which was made with its own thresholds; give the traces with --threshold");
  }
  return &*report;
}

Json read_report(const fs::path& path, const NamingOptions& naming) {
  std::ifstream file(path);
  if (!file) {
    throw Failure(format_text("cannot open {}: {}", path.string(), std::strerror(errno)));
  }
  Json report;
  try {
    report = Json::parse(file);
  } catch (const analyzer::JsonError&) {
    throw Failure(
        format_text("{} is no complete JSON; make the report again with "
                    "`gpumemtrace analyze TRACE -o {}`",
                    path.string(), path.filename().string()));
  }
  if (text_or(report, "format", "") != kReportFormat) {
    throw Failure(
        format_text("{} is JSON but no gpumemtrace report; give a trace (*.gmt) or a "
                    "report of `gpumemtrace analyze`",
                    path.string()));
  }
  if (number_in(report, "version") != kReportVersion) {
    throw Failure(
        format_text("{} is a report of another version than {}; read it with the "
                    "gpumemtrace that made it, or analyze the trace again",
                    path.string(), kReportVersion));
  }
  if (naming.timeline_points) {
    refuse(path, ", whose timelines are as they are; give the traces with --timeline-points");
  }
  if (naming.redact && !report.contains("redacted")) {
    refuse(path, ", which was made with all names; give the traces with --redact");
  }
  return report;
}

analyzer::rows::Report analyze_traces(const std::vector<fs::path>& inputs,
                                      const NamingOptions& naming,
                                      const analyzer::Thresholds& thresholds, bool tell_progress) {
  try {
    ProgressLine line(tell_progress);
    analyzer::Options options;
    options.thresholds = thresholds;
    options.progress = [&line](double fraction) { line.update(fraction); };
    options.symbols = symbol_options(naming);
    options.owner_files = naming.owners;
    options.redact = naming.redact;
    options.timeline_points = naming.timeline_points;
    return analyzer::analyze(inputs, options);
  } catch (const analyzer::InputError& error) {
    throw Failure(error.what());
  } catch (const trace::TraceError& error) {
    throw Failure(error.what());
  }
}

}  // namespace

bool is_without_trace(const std::vector<fs::path>& inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [](const fs::path& input) {
    std::error_code ignored;
    if (!fs::is_directory(input, ignored)) return false;
    try {
      return trace::find_traces({input}).empty();
    } catch (const trace::TraceError&) {
      return true;
    }
  });
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

Json load_report(const std::vector<fs::path>& inputs, const NamingOptions& naming,
                 const analyzer::Thresholds& thresholds, bool tell_progress) {
  const fs::path* const report = find_report(inputs, thresholds);
  if (report != nullptr) return read_report(*report, naming);
  return analyzer::to_json(analyze_traces(inputs, naming, thresholds, tell_progress));
}

analyzer::rows::Report load_rows(const std::vector<fs::path>& inputs, const NamingOptions& naming,
                                 const analyzer::Thresholds& thresholds) {
  const fs::path* const report = find_report(inputs, thresholds);
  if (report == nullptr) return analyze_traces(inputs, naming, thresholds, false);
  try {
    return analyzer::report_of_json(read_report(*report, naming));
  } catch (const analyzer::InputError& error) {
    throw Failure(
        format_text("{} is no complete report ({}); make it again with `gpumemtrace "
                    "analyze`",
                    report->string(), error.what()));
  }
}

bool is_complete(const Json& report) {
  const Json& traces = report.at("traces");
  return std::all_of(traces.begin(), traces.end(),
                     [](const Json& trace) { return trace.at("complete").get<bool>(); });
}

bool is_complete(const analyzer::rows::Report& report) {
  return std::all_of(report.traces.begin(), report.traces.end(),
                     [](const analyzer::rows::Trace& trace) { return trace.complete; });
}

std::optional<std::uint64_t> only_sums_until_ns(const Json& report) {
  std::optional<std::uint64_t> until_ns;
  const auto rows = report.at("coverage").find("partial_rules");
  if (rows == report.at("coverage").end()) return until_ns;
  for (const Json& row : *rows) {
    until_ns = std::max(until_ns.value_or(0), number_or_zero(row, "from_ns"));
  }
  return until_ns;
}

std::optional<std::uint64_t> only_sums_until_ns(const analyzer::rows::Report& report) {
  std::optional<std::uint64_t> until_ns;
  for (const analyzer::rows::PartialRules& row : report.coverage.partial_rules) {
    until_ns = std::max(until_ns.value_or(0), row.from_ns);
  }
  return until_ns;
}

}  // namespace gpumemtrace::tools
