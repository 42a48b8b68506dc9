// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/input_options.hpp"

#include <algorithm>

#include "analyzer/replay/allocator_settings.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/terminal.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/output_rules.hpp"

namespace gpumemtrace::tools {

void add_symbol_options(CommandLine& line, NamingOptions& naming) {
  line.option("--symbols", naming.symbols,
              "Look for programs and debug information in this folder, or take the names from "
              "this file of `gpumemtrace symbolize`; may be repeated.")
      .value_name("PATH")
      .one_value_each();
  line.flag("--debuginfod", naming.use_debuginfod,
            "Ask the servers in DEBUGINFOD_URLS for debug information.");
}

void add_naming_options(CommandLine& line, NamingOptions& naming) {
  add_symbol_options(line, naming);
  line.option("--owners", naming.owners,
              "Rules that say whose code is whose (docs/concepts.md); may be repeated.")
      .value_name("FILE")
      .one_value_each();
}

void add_scope_options(CommandLine& line, std::string& rank, std::string& device) {
  line.option("--rank", rank, "Only the process with this rank.")
      .value_name("N")
      .check(number_error);
  line.option("--device", device, "Only this GPU, by its id in the report.").value_name("d0");
}

void add_color_option(CommandLine& line, std::string& mode) {
  line.option("--color", mode,
              "Colour verdicts: auto (default) on a terminal where NO_COLOR is not set.")
      .value_name(joined(color_modes(), "|"))
      .one_of(color_modes());
}

void add_force_option(CommandLine& line, bool& force) {
  line.flag("--force", force, "Replace files that are there; never a trace or what is read.");
}

void add_groups_option(CommandLine& line, NamingOptions& naming) {
  line.option("--groups", naming.groups,
              "How ranks are numbered, the innermost first: tp=2,dp,pp=4; ep=N shares experts.")
      .value_name("SIZES");
}

void add_all_runs_option(CommandLine& line, bool& all_runs) {
  line.flag("--all-runs", all_runs,
            "Take in every trace of a folder; else those are left out whose command was recorded "
            "again later.");
}

void add_drop_option(CommandLine& line, bool& deletes) {
  line.flag("--drop-traces", deletes,
            "Delete each trace once its partial report is written and read back.");
}

void AnalysisOptions::add_options(CommandLine& line) {
  line.flag("--require-complete", require_complete,
            "Exit with 24 where a trace misses events; without it, that is only said.");
  add_scope_options(line, rank, device);
  line.flag("--redact", naming.redact,
            "Replace private names (paths, commands, hosts, functions of the program) by "
            "names without meaning (docs/security.md).");
  add_groups_option(line, naming);
  add_all_runs_option(line, all_runs);
  line.flag("--progress", forces_progress_line,
            "Say on stderr how far the analysis is, also where that is no terminal.");
  add_naming_options(line, naming);
}

LoadOptions AnalysisOptions::load_options() const {
  LoadOptions load{naming, thresholds.values(), forces_progress_line};
  load.scope = {parse_number(rank), device};
  load.all_runs = all_runs;
  return load;
}

void InputOptions::add_options(CommandLine& line) {
  line.option("INPUT", inputs, "Traces (*.gmt), partial reports, folders of both, or one report.")
      .required()
      .value_name("");
  AnalysisOptions::add_options(line);
  thresholds.add_options(line);
}

void add_time_options(CommandLine& line, NamedTimes& times, const TimeHelp& help) {
  const auto add = [&](const std::string& names, std::string& value, const std::string& text) {
    line.option(names, value, text).value_name("TIME").check(time_error);
  };
  add("--from", times.from, help.part + " from this time on: 12.4s, 0.67, 350ms or nanoseconds.");
  add(help.until, times.until, "The same up to this time.");
  line.option("--step", times.step, "The same of this step.").value_name("N").check(number_error);
  line.option("--at", times.at,
              help.moment + " at this time, at the peak, or when a step held most.")
      .value_name("TIME|peak|step:N")
      .check(moment_error);
}

void MomentOptions::add_options(CommandLine& line) {
  add_time_options(line, times,
                   {"Memory over time and the largest blocks, in finer intervals,", "--until,--to",
                    "Also every block that was live (blocks[])"});
  line.option("--blocks", blocks,
              "Also every block that was live at the peak of each process, device and level.")
      .value_name("at-peak")
      .one_of({"at-peak"});
}

void MomentOptions::apply(const std::vector<std::filesystem::path>& inputs, LoadOptions& load) {
  times.resolve(inputs, load);
  load.naming.from_ns = parse_time(times.from);
  load.naming.to_ns = parse_time(times.until);
  load.naming.at_ns = parse_time(times.at);
  load.naming.blocks_at_peak = !blocks.empty();
}

void ReplayOptions::add_options(CommandLine& line) {
  line.option("--setting", settings,
              "Replay this text of PYTORCH_CUDA_ALLOC_CONF, too; may be repeated.")
      .value_name("SETTINGS")
      .one_value_each()
      .check([](const std::string& text) -> std::string {
        try {
          (void)analyzer::replay::parse_settings(text, {});
          return {};
        } catch (const analyzer::replay::SettingError& error) {
          return error.what();
        }
      });
  line.option("--capacity", capacities,
              "Replay on a card with so much memory, too; may be repeated.")
      .value_name("SIZE")
      .one_value_each()
      .check([](const std::string& text) -> std::string {
        if (std::string complaint = size_error(text); !complaint.empty()) {
          return complaint;
        }
        return parse_size(text) == 0u ? "a card without memory holds nothing" : "";
      });
}

void ReplayOptions::add_optional(CommandLine& line) {
  line.flag("--what-if", what_if,
            "Also replay PyTorch's allocator under other settings: what_if[] (docs/whatif.md).");
  add_options(line);
}

std::optional<analyzer::replay::Question> ReplayOptions::question_if_asked() const {
  // --setting and --capacity imply --what-if.
  const bool asks = what_if || !settings.empty() || !capacities.empty();
  return asks ? std::optional(question()) : std::nullopt;
}

analyzer::replay::Question ReplayOptions::question() const {
  constexpr std::uint64_t kBytesPerGb = 1'000'000'000;
  constexpr std::uint64_t kCardsGb[] = {16, 24, 32, 40, 48, 80, 96, 141, 192};
  analyzer::replay::Question question;
  question.settings = settings;
  for (const std::uint64_t gb : kCardsGb) question.capacities.push_back(gb * kBytesPerGb);
  for (const std::string& text : capacities) {
    const std::uint64_t bytes = parse_size(text).value_or(0);
    std::vector<std::uint64_t>& all = question.capacities;
    if (std::ranges::find(all, bytes) == all.end()) all.push_back(bytes);
  }
  return question;
}

Option OutputOptions::add_options(CommandLine& line, const std::string& help) {
  const Option option = line.option("-o,--output", output, help).value_name("FILE");
  add_force_option(line, force);
  return option;
}

void OutputOptions::require_writable(const std::vector<std::filesystem::path>& inputs,
                                     const NamingOptions& naming, std::string_view own_mark) const {
  OutputRules rules(force);
  rules.reads(inputs);
  rules.reads(naming.symbols);
  rules.reads(naming.owners);
  rules.require_writable(output, own_mark);
}

}  // namespace gpumemtrace::tools
