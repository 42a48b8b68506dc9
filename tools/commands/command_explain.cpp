// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>

#include "tools/base/failure.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/terminal.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/explain/explanation.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kExplainFooter =
    R"TEXT(FILE is the output of a program that ran out of memory: one message of PyTorch, or a log of
many ranks ("[rank3]:", torchrun's "[default3]:"). Without FILE it is read from standard input.
What the message does not say is not said; `gpumemtrace run` records the rest.

Examples:
  gpumemtrace explain train.log
  torchrun --nproc-per-node=8 train.py 2>&1 | gpumemtrace explain

Exit codes: 0 a message is explained, 1 FILE cannot be read or has no message, 2 usage.)TEXT";

struct ExplainOptions {
  std::filesystem::path file;
  std::string color = "auto";
  bool json = false;
};

void read_log(const std::filesystem::path& path, FailureLog& log) {
  if (is_stdout(path)) {  // the user gave no path, or "-"
    log.read(std::cin);
    return;
  }
  std::ifstream file(path, std::ios::binary);
  if (std::filesystem::is_directory(path)) errno = EISDIR;
  if (!file || std::filesystem::is_directory(path)) {
    throw Failure(format_text("cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  log.read(file);
}

int explain(const ExplainOptions& options) {
  FailureLog log;
  read_log(options.file, log);
  if (log.groups().empty()) {
    throw Failure(format_text(
        "{} of input have no out-of-memory message of PyTorch, JAX or CUDA; give the output of "
        "the program that failed, with its stderr",
        count_of(log.lines(), "line", "lines")));
  }
  const Explanation explanation = explain_failures(log);
  write_output({}, options.json
                       ? explanation_json(explanation)
                       : styled(explanation_text(explanation), style_of(stdout, options.color)));
  return to_int(ExitCode::kSuccess);
}

}  // namespace

Action define_explain(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kExplainFooter);
  auto options = std::make_shared<ExplainOptions>();
  line.option("FILE", options->file, "The log; standard input without it, or with -.")
      .value_name("");
  line.flag("--json", options->json, "Print JSON instead of text.");
  add_color_option(line, options->color);
  return [options] { return explain(*options); };
}

}  // namespace gpumemtrace::tools
