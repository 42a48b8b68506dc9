// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <string>

#include "tools/base/failure.hpp"
#include "tools/base/styled_text.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/traces/machine_checks.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kDoctorFooter =
    R"TEXT(Each line says ok, note or bad, what was found, and for the last two what to do.

Exit codes: 0 programs can be recorded here, 1 they cannot, 2 usage.)TEXT";

const char* word_for(CheckState state) {
  return state == CheckState::kOk ? "ok" : state == CheckState::kNote ? "note" : "bad";
}

int print_checks(const std::string& color) {
  std::string text;
  ExitCode exit_code = ExitCode::kSuccess;
  for (const CheckResult& check : check_machine()) {
    text += format_text("{:<5} {}: {}{}{}\n", word_for(check.state), check.subject, check.finding,
                        check.remedy.empty() ? "" : "; ", check.remedy);
    if (check.state == CheckState::kBad) exit_code = ExitCode::kFailure;
  }
  write_text(stdout, styled(text, style_of(stdout, color)));
  return to_int(exit_code);
}

}  // namespace

Action define_doctor(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kDoctorFooter);
  auto color = std::make_shared<std::string>("auto");
  add_color_option(line, *color);
  return [color] { return print_checks(*color); };
}

}  // namespace gpumemtrace::tools
