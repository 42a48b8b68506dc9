// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include "analyzer/base/input_error.hpp"
#include "analyzer/json/row_values.hpp"
#include "analyzer/replay/allocator_settings.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/terminal.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/diff/difference.hpp"
#include "tools/whatif/batch_fit.hpp"
#include "tools/whatif/what_if_text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kWhatIfFooter =
    R"TEXT(INPUT is a trace, a folder of traces, or a report of `analyze --what-if`.

The recorded calls of PyTorch's allocator are replayed, first under the recorded
settings, as a proof, then under others (docs/whatif.md). Of a program without
PyTorch the calls of the driver are replayed instead, as if PyTorch's allocator
had dealt them.

With --fit each INPUT is a run and its batch size, PATH=SIZE: two make a line by
call site, others check it. Nothing but the batch size may differ.

Examples:
  gpumemtrace whatif job.gmt
  gpumemtrace whatif job.gmt --setting max_split_size_mb:200
  gpumemtrace whatif job.gmt --capacity 40GiB --json
  gpumemtrace whatif --fit a.gmt=16 b.gmt=24 c.gmt=32 --batch 48

Exit codes: 0 done, 1 an input cannot be read or holds nothing to replay, or the
runs of --fit make no line, 2 usage, also for settings that PyTorch does not
take, 24 events are missing and --require-complete was given.)TEXT";

struct WhatIfOptions {
  InputOptions input;
  ReplayOptions replay;
  bool fit = false;
  std::vector<std::string> batches;
  bool json = false;
  std::string color = "auto";
};

std::string batch_error(const std::string& text) {
  const auto number = parse_number(text);
  return number && *number >= 1 && *number <= kMaxBatch
             ? std::string()
             : format_text("'{}' is no batch size; write a number from 1 to {}", text, kMaxBatch);
}

struct BatchInput {
  std::filesystem::path path;
  std::uint64_t batch = 0;
};

BatchInput split_batch(const std::string& input) {
  const std::size_t sign = input.rfind('=');
  if (sign == std::string::npos || sign == 0) {
    throw Failure(format_text("'{}' has no batch size; write PATH=SIZE, such as a.gmt=16", input),
                  ExitCode::kUsage);
  }
  const std::string number = input.substr(sign + 1);
  if (const std::string complaint = batch_error(number); !complaint.empty()) {
    throw Failure(complaint, ExitCode::kUsage);
  }
  return {input.substr(0, sign), parse_number(number).value_or(0)};
}

void require_fit_usage(const WhatIfOptions& options) {
  if (options.input.inputs.size() < 2) {
    throw Failure("--fit needs two runs of different batch sizes, PATH=SIZE each",
                  ExitCode::kUsage);
  }
  if (!options.replay.settings.empty()) {
    throw Failure("--setting replays one run; it has no meaning with --fit", ExitCode::kUsage);
  }
  if (options.input.naming.redact) {
    throw Failure("--redact names each run's code anew, so that --fit could not join them",
                  ExitCode::kUsage);
  }
}

// Throws Failure if the runs differ in program or machine, because the batch size is then not the
// only reason for different memory.
void require_same_environment(const analyzer::rows::Report& first,
                              const analyzer::rows::Report& other, const BatchInput& first_input,
                              const BatchInput& input) {
  const std::vector<std::string> changes = changes_of_environment(first, other);
  if (changes.empty()) return;
  throw Failure(
      format_text("the runs differ in more than the batch size: {} (BASE is batch {}, "
                  "NEW is batch {})",
                  changes.front(), first_input.batch, input.batch));
}

int fit_batches(const WhatIfOptions& options) {
  require_fit_usage(options);
  std::vector<BatchInput> inputs;
  for (const auto& input : options.input.inputs) inputs.push_back(split_batch(input.string()));
  LoadOptions load = options.input.load_options();
  load.naming.blocks_at_peak = true;
  std::vector<FitRun> runs;
  analyzer::rows::Report first;
  for (const BatchInput& input : inputs) {
    const bool is_first = runs.empty();
    analyzer::rows::Report report = load_printable_report({input.path}, load);
    runs.push_back(fit_run_of(report, input.batch));
    if (is_first) {
      first = std::move(report);
    } else {
      require_same_environment(first, report, inputs.front(), input);
    }
  }
  const BatchFit fit(std::move(runs));
  FitQuestion question{{}, options.replay.question().capacities};
  for (const std::string& batch : options.batches) {
    question.batches.push_back(parse_number(batch).value_or(0));
  }
  write_text(stdout, options.json ? batch_fit_json(fit, question) : batch_fit_text(fit, question));
  return to_int(ExitCode::kSuccess);
}

// The output of --json.
struct WhatIfAnswer {
  std::vector<analyzer::rows::WhatIf> what_if;

  GPUMEMTRACE_FIELDS(what_if)
};

int replay_settings(const WhatIfOptions& options) {
  if (!options.batches.empty()) {
    throw Failure("--batch asks two recordings; give --fit A=SIZE B=SIZE", ExitCode::kUsage);
  }
  LoadOptions load = options.input.load_options();
  load.what_if = options.replay.question();
  const analyzer::rows::Report report = load_printable_report(options.input.inputs, load);
  if (!report.what_if) {
    throw Failure(format_text("{} is a report that was made without --what-if; give the traces",
                              options.input.inputs.front().string()));
  }
  if (report.what_if->empty()) {
    throw Failure(format_text("{} holds nothing to replay: no device memory was asked for",
                              options.input.inputs.front().string()));
  }
  if (options.json) {
    write_text(
        stdout,
        analyzer::json_text(WhatIfAnswer{*report.what_if}, analyzer::JsonLayout::kIndented) + "\n");
  } else {
    TextStyle style = style_of(stdout, options.color);
    style.columns = 0;  // 0: the table is already cut to width
    write_text(stdout, styled(what_if_text(report), style));
  }
  return options.input.exit_code(report);
}

}  // namespace

Action define_whatif(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kWhatIfFooter);
  auto options = std::make_shared<WhatIfOptions>();
  options->input.add_options(line);
  options->replay.add_options(line);
  line.flag("--fit", options->fit,
            "What another batch size would take, from runs of two: INPUT is PATH=SIZE.");
  line.option("--batch", options->batches,
              "With --fit: what this batch size would take; may be repeated.")
      .value_name("N")
      .one_value_each()
      .check(batch_error);
  line.flag("--json", options->json,
            "Print what_if[] of the report, or fit, instead of the table.");
  add_color_option(line, options->color);
  return [options] { return options->fit ? fit_batches(*options) : replay_settings(*options); };
}

}  // namespace gpumemtrace::tools
