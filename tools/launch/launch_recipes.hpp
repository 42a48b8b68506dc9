// SPDX-License-Identifier: Apache-2.0
// What to paste so that a launcher records the programs it starts.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/launch/recording_options.hpp"

namespace gpumemtrace::tools {

// What a recipe puts together. The recipe itself adds LD_PRELOAD, in its launcher's own way.
struct LaunchSettings {
  std::filesystem::path library;
  std::vector<EnvironmentVariable> variables;
};

struct LaunchRecipe {
  std::string_view launcher;
  std::string (*text)(const LaunchSettings& settings);
};

[[nodiscard]] std::string shell_recipe(const LaunchSettings& settings);
[[nodiscard]] std::string torchrun_recipe(const LaunchSettings& settings);
[[nodiscard]] std::string srun_recipe(const LaunchSettings& settings);
[[nodiscard]] std::string mpirun_recipe(const LaunchSettings& settings);
[[nodiscard]] std::string docker_recipe(const LaunchSettings& settings);
[[nodiscard]] std::string kubernetes_recipe(const LaunchSettings& settings);
[[nodiscard]] std::string ray_recipe(const LaunchSettings& settings);

// `--for` takes the names of these rows; the first is for a plain shell.
inline constexpr auto kLaunchRecipes = std::to_array<LaunchRecipe>({
    {"shell", shell_recipe},
    {"torchrun", torchrun_recipe},
    {"srun", srun_recipe},
    {"mpirun", mpirun_recipe},
    {"docker", docker_recipe},
    {"k8s", kubernetes_recipe},
    {"ray", ray_recipe},
});

}  // namespace gpumemtrace::tools
