// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/base/json.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/terminal.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/input_options.hpp"
#include "tools/traces/machine_checks.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::Json;

constexpr const char* kDoctorFooter =
    R"TEXT(Each line says ok, note or bad, what was found, and for the last two what to do.

Exit codes: 0 programs can be recorded here, 1 they cannot, 2 usage.)TEXT";

StyledText word_for(CheckState state) {
  if (state == CheckState::kOk) return {"ok", Style::kGood};
  return state == CheckState::kNote ? StyledText("note", Style::kDoubtful)
                                    : StyledText("bad", Style::kBad);
}

constexpr std::size_t kWordWidth = 6;

struct DoctorOptions {
  bool json = false;
  std::string color = "auto";
};

Json json_of(const std::vector<CheckResult>& checks) {
  Json list = Json::array();
  for (const CheckResult& check : checks) {
    list.push_back({{"state", word_for(check.state).letters()},
                    {"subject", check.subject},
                    {"finding", check.finding},
                    {"remedy", check.remedy.empty() ? Json(nullptr) : Json(check.remedy)}});
  }
  return list;
}

int print_checks(const DoctorOptions& options) {
  const std::vector<CheckResult> checks = check_machine();
  StyledText text;
  ExitCode exit_code = ExitCode::kSuccess;
  for (const CheckResult& check : checks) {
    const StyledText word = word_for(check.state);
    text += word + std::string(kWordWidth - word.letters().size(), ' ') +
            format_text("{}: {}{}{}\n", check.subject, check.finding,
                        check.remedy.empty() ? "" : "; ", check.remedy);
    if (check.state == CheckState::kBad) exit_code = ExitCode::kFailure;
  }
  write_text(stdout, options.json ? json_of(checks).dump(2) + "\n"
                                  : styled(text, style_of(stdout, options.color)));
  return to_int(exit_code);
}

}  // namespace

Action define_doctor(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kDoctorFooter);
  auto options = std::make_shared<DoctorOptions>();
  line.flag("--json", options->json, "Print a list of objects: state, subject, finding, remedy.");
  add_color_option(line, options->color);
  return [options] { return print_checks(*options); };
}

}  // namespace gpumemtrace::tools
