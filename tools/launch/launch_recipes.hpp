// SPDX-License-Identifier: Apache-2.0
// Texts to paste so that a launcher records the programs it starts.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/launch/recording_options.hpp"

namespace gpumemtrace::tools {

// The settings of a recipe. The recipe itself adds LD_PRELOAD, in its launcher's own way.
struct LaunchSettings {
  std::filesystem::path library;
  std::vector<EnvironmentVariable> variables;
};

struct LaunchRecipe {
  std::string_view launcher;
  std::string (*text)(const LaunchSettings& settings);
};

// `--for` takes the names of these rows; the first is for a plain shell.
[[nodiscard]] std::span<const LaunchRecipe> launch_recipes();

}  // namespace gpumemtrace::tools
