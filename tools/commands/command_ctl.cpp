// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <string_view>

#include "analyzer/base/json_text.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/messages.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/traces/ring_control.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kCtlFooter =
    R"TEXT(Examples:
  gpumemtrace run --start-paused -- python3 train.py &
  gpumemtrace ctl 4711 start
  gpumemtrace ctl 4711 mark after-warm-up
  gpumemtrace ctl 4711 stop

Exit codes: 0 the process did it, 1 it is not being recorded or did not answer, 2 usage.)TEXT";

struct ControlAction {
  std::string_view name;
  trace::ControlCommand command;
  bool takes_text;
  std::string_view done;
};

constexpr auto kControlActions = std::to_array<ControlAction>({
    {"start", trace::ControlCommand::kStart, false, "records from now on"},
    {"stop", trace::ControlCommand::kStop, false, "no longer records"},
    {"mark", trace::ControlCommand::kMark, true, "has the mark"},
});

struct CtlOptions {
  pid_t pid = 0;
  std::string action;
  std::string text;
  bool json = false;
};

int control(const CtlOptions& options) {
  const auto* const action =
      std::ranges::find(kControlActions, options.action, &ControlAction::name);
  if (action->takes_text && options.text.empty()) {
    throw Failure("mark needs a name, as in `gpumemtrace ctl PID mark after-warm-up`",
                  ExitCode::kUsage);
  }
  if (!action->takes_text && !options.text.empty()) {
    throw Failure(options.action + " takes no name; leave '" + options.text + "' out",
                  ExitCode::kUsage);
  }
  control_recording(options.pid, action->command, options.text);
  if (options.json) {
    analyzer::JsonText object(analyzer::JsonLayout::kCompact);
    object.open_object();
    object.key("pid");
    object.number(static_cast<std::uint64_t>(options.pid));
    object.key("action");
    object.text(options.action);
    if (action->takes_text) {
      object.key("name");
      object.text(options.text);
    }
    object.close();
    print_text(stdout, "{}\n", object.take());
  } else {
    say(format_text("process {} {}{}", options.pid, action->done,
                    action->takes_text ? " '" + options.text + "'" : ""));
  }
  return 0;
}

}  // namespace

Action define_ctl(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kCtlFooter);
  auto options = std::make_shared<CtlOptions>();
  std::vector<std::string> names;
  for (const ControlAction& action : kControlActions) names.emplace_back(action.name);
  line.option("PID", options->pid, "The recorded process.")
      .required()
      .whole_number(1, std::numeric_limits<pid_t>::max())
      .value_name("");
  line.option("ACTION", options->action, "What to do; mark needs a name.")
      .required()
      .one_of(names)
      .value_name(joined(names, "|"));
  line.option("NAME", options->text, "What the mark is called in trace and report.").value_name("");
  line.flag("--json", options->json, "Print what was done as JSON.");
  return [options] { return control(*options); };
}

}  // namespace gpumemtrace::tools
