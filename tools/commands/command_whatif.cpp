// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>

#include "analyzer/base/input_error.hpp"
#include "analyzer/json/report_json.hpp"
#include "analyzer/replay/allocator_settings.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/whatif/what_if_text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kWhatIfFooter =
    R"TEXT(INPUT is a trace, a folder of traces, or a report of `analyze --what-if`.

The recorded calls of PyTorch's allocator are replayed, first under the recorded
settings, as a proof, then under others (docs/whatif.md).

Examples:
  gpumemtrace whatif job.gmt
  gpumemtrace whatif job.gmt --setting max_split_size_mb:200
  gpumemtrace whatif job.gmt --capacity 40GiB --json

Exit codes: 0 done, 1 an input cannot be read or holds nothing to replay,
2 usage, also for settings that PyTorch does not take, 24 events are missing
and --require-complete was given.)TEXT";

struct WhatIfOptions {
  InputOptions input;
  ReplayOptions replay;
  bool json = false;
};

int answer(const WhatIfOptions& options) {
  LoadOptions load = options.input.load_options();
  load.what_if = options.replay.question();
  const analyzer::rows::Report report = load_rows(options.input.inputs, load);
  if (!report.what_if || report.what_if->empty()) {
    throw Failure(format_text("{} holds nothing to replay: PyTorch's allocator was not seen",
                              options.input.inputs.front().string()));
  }
  if (options.json) {
    Json object = Json::object();
    object["what_if"] = analyzer::to_json(*report.what_if);
    write_text(stdout, object.dump(2) + "\n");
  } else {
    write_text(stdout, what_if_text(report));
  }
  return to_int(options.input.require_complete && !is_complete(report) ? ExitCode::kIncomplete
                                                                       : ExitCode::kSuccess);
}

}  // namespace

Action define_whatif(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kWhatIfFooter);
  auto options = std::make_shared<WhatIfOptions>();
  options->input.add_options(line);
  options->replay.add_options(line);
  line.flag("--json", options->json, "Print what_if[] of the report instead of the table.");
  return [options] { return answer(*options); };
}

}  // namespace gpumemtrace::tools
