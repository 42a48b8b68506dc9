// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>

#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/launch/installation.hpp"
#include "tools/launch/launch_environment.hpp"
#include "tools/launch/launch_recipes.hpp"
#include "tools/launch/recording_options.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kEnvFooter =
    R"TEXT(Examples:
  eval "$(gpumemtrace env)"
  gpumemtrace env --for srun -o '/shared/traces/%h.%r.gmt'

Exit codes: 0 printed, 1 the recording library was not found, 2 usage.)TEXT";

struct EnvOptions {
  RecordingSettings recording;
  std::string launcher{launch_recipes().front().launcher};
};

int print_recipe(const EnvOptions& options) {
  LaunchSettings settings{find_library(), options.recording.environment()};
  const bool names_tensors = std::ranges::any_of(settings.variables, [](const auto& variable) {
    return variable.name == kTorchNamesVariable;
  });
  if (names_tensors) {
    settings.variables.push_back(python_path_variable(find_torch_names(settings.library)));
  }
  const auto recipe =
      std::ranges::find(launch_recipes(), options.launcher, &LaunchRecipe::launcher);
  write_text(stdout, recipe->text(settings));
  return 0;
}

}  // namespace

Action define_env(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kEnvFooter);
  auto options = std::make_shared<EnvOptions>();
  std::vector<std::string> launchers;
  for (const LaunchRecipe& recipe : launch_recipes()) launchers.emplace_back(recipe.launcher);
  line.option("--for", options->launcher,
              "The program's launcher (default shell). Launchers: " + joined(launchers, ", "))
      .value_name("LAUNCHER")
      .one_of(launchers);
  options->recording.add_options(line);
  return [options] { return print_recipe(*options); };
}

}  // namespace gpumemtrace::tools
