// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/input_options.hpp"

#include <algorithm>

#include "analyzer/base/input_error.hpp"
#include "analyzer/json/report_json.hpp"
#include "analyzer/replay/allocator_settings.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/styled_text.hpp"
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
              "Rules that say whose code is whose (docs/owners.md); may be repeated.")
      .value_name("FILE")
      .one_value_each();
}

void add_rank_option(CommandLine& line, std::string& rank) {
  line.option("--rank", rank, "Only the process with this rank.")
      .value_name("N")
      .check(complaint_about_number);
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

void AnalysisOptions::add_options(CommandLine& line) {
  line.flag("--require-complete", require_complete, "Exit with 24 where a trace misses events.");
  line.flag("--redact", naming.redact,
            "Replace private names (paths, commands, hosts, functions of the program) by "
            "names without meaning (docs/security.md).");
  line.flag("--progress", tell_progress,
            "Say on stderr how far the analysis is, also where that is no terminal.");
  add_naming_options(line, naming);
}

LoadOptions AnalysisOptions::load_options() const {
  return {naming, thresholds.values(), tell_progress};
}

void InputOptions::add_options(CommandLine& line) {
  line.option("INPUT", inputs, "Traces (*.gmt), folders of traces, or one report.")
      .required()
      .value_name("");
  AnalysisOptions::add_options(line);
  thresholds.add_options(line);
}

int InputOptions::use_report(const std::function<void(const Json&)>& use) const {
  const Json report = load_report(inputs, load_options());
  const auto refuse = [&](const std::exception& error) {
    throw Failure(
        format_text("{} is no complete report ({}); make it again with `gpumemtrace analyze`",
                    inputs.front().string(), error.what()));
  };
  try {
    use(report);
  } catch (const analyzer::JsonError& error) {
    refuse(error);
  } catch (const analyzer::InputError& error) {
    refuse(error);
  }
  return exit_code(report);
}

Option add_time_option(CommandLine& line, const std::string& flag, std::string& value,
                       const std::string& help) {
  return line.option(flag, value, help).value_name("TIME").check(complaint_about_time);
}

void MomentOptions::add_options(CommandLine& line) {
  add_time_option(
      line, "--from", from,
      "Memory over time and the largest blocks from this time on only, in finer intervals.");
  add_time_option(line, "--to", to, "The same up to this time.");
  add_time_option(line, "--at", at, "Also every block that was live at this time: blocks[].");
  line.option("--blocks", blocks,
              "Also every block that was live at the peak of each process, device and level.")
      .value_name("at-peak")
      .one_of({"at-peak"});
}

void MomentOptions::apply(NamingOptions& naming) const {
  if (!from.empty()) naming.from_ns = parse_time(from);
  if (!to.empty()) naming.to_ns = parse_time(to);
  if (!at.empty()) naming.at_ns = parse_time(at);
  naming.blocks_at_peak = !blocks.empty();
  if (naming.to_ns && naming.from_ns.value_or(0) >= *naming.to_ns) {
    throw Failure("--to must be later than --from", ExitCode::kUsage);
  }
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
        if (std::string complaint = complaint_about_size(text); !complaint.empty()) {
          return complaint;
        }
        return parse_size(text) == 0u ? "a card without memory holds nothing" : "";
      });
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
