// SPDX-License-Identifier: Apache-2.0
// The operands and options that commands share.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/replay/question.hpp"
#include "tools/base/failure.hpp"
#include "tools/cli/command_line.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/step_moment.hpp"
#include "tools/report_view/threshold_options.hpp"

namespace gpumemtrace::tools {

// add_symbol_options() adds --symbols and --debuginfod, sources of function names that the traces
// do not hold. add_naming_options() adds these and --owners.
void add_symbol_options(CommandLine& line, NamingOptions& naming);
void add_naming_options(CommandLine& line, NamingOptions& naming);

// Options for making a report of inputs.
struct AnalysisOptions {
  bool require_complete = false;
  bool forces_progress_line = false;
  std::string rank;
  std::string device;
  bool all_runs = false;
  NamingOptions naming;
  ThresholdOptions thresholds;

  // Adds the options except --threshold, which only commands that show findings have. The parser
  // writes into this object, which must not move until the command line is parsed.
  void add_options(CommandLine& line);

  // Throws Failure for a threshold that makes no sense.
  [[nodiscard]] LoadOptions load_options() const;
};

// Options and operands of commands that read the inputs of one job.
struct InputOptions : AnalysisOptions {
  std::vector<std::filesystem::path> inputs;

  void add_options(CommandLine& line);

  // The exit code after the report was written: kIncomplete if events are missing and the user
  // required them.
  [[nodiscard]] int exit_code(const analyzer::rows::Report& report) const {
    return to_int(require_complete && !is_complete(report) ? ExitCode::kIncomplete
                                                           : ExitCode::kSuccess);
  }
};

// The part of the run and the time to show in detail.
struct MomentOptions {
  NamedTimes times;
  std::string blocks;

  void add_options(CommandLine& line);
  // Throws Failure for times that make no sense.
  void apply(const std::vector<std::filesystem::path>& inputs, LoadOptions& load);
};

// Options of a replay of the allocations.
struct ReplayOptions {
  bool what_if = false;
  std::vector<std::string> settings;
  std::vector<std::string> capacities;

  void add_options(CommandLine& line);
  // Adds the options for a command that replays only if asked to, with --what-if.
  void add_optional(CommandLine& line);
  // The settings and card sizes to replay: those that the user named, and the usual card sizes.
  [[nodiscard]] analyzer::replay::Question question() const;
  // question(); nullopt if the user gave none of the options of add_optional().
  [[nodiscard]] std::optional<analyzer::replay::Question> question_if_asked() const;
};

// A text at the begin of every report.
inline constexpr std::string_view kReportMark = "\"format\": \"gpumemtrace-report\"";

// The output of a command, and the files that it may replace.
struct OutputOptions {
  std::filesystem::path output;
  bool force = false;

  // Adds the options; returns the one for the output. `help` is its help text.
  Option add_options(CommandLine& line, const std::string& help);

  // Throws Failure if the output may not be written (OutputRules). To be called before the work.
  void require_writable(const std::vector<std::filesystem::path>& inputs,
                        const NamingOptions& naming, std::string_view own_mark = {}) const;
};

// Parts of the help of time options: `part` says what the command shows with --from, --until and
// --step, `moment` with --at. `until` is the option for the end of the part, with its aliases.
struct TimeHelp {
  std::string part;
  std::string until;
  std::string moment;
};
void add_time_options(CommandLine& line, NamedTimes& times, const TimeHelp& help);

// Adds --rank and --device, for a command that can show a part of the job.
void add_scope_options(CommandLine& line, std::string& rank, std::string& device);

// Adds --color, for a command that prints text.
void add_color_option(CommandLine& line, std::string& mode);

// Adds --groups, for a command that analyzes traces.
void add_groups_option(CommandLine& line, NamingOptions& naming);

// Adds --all-runs, for a command that accepts folders.
void add_all_runs_option(CommandLine& line, bool& all_runs);

// Adds --drop-traces, for a command that reduces traces.
void add_drop_option(CommandLine& line, bool& deletes);

// Adds --force, for a command that writes files.
void add_force_option(CommandLine& line, bool& force);

}  // namespace gpumemtrace::tools
