// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launch_recipes.hpp"

#include <algorithm>
#include <array>

#include "analyzer/base/json.hpp"
#include "tools/base/text.hpp"
#include "tools/launch/launch_environment.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kFolderInContainer = "/opt/gpumemtrace";
constexpr const char* kTracesInContainer = "/traces";

std::string assignment(const EnvironmentVariable& variable) {
  return format_text("{}={}", variable.name, shell_word(variable.value));
}

// LD_PRELOAD for a shell that may have one already, and the library as NVTX's tool before the one
// that the shell may have.
std::string shell_preload(const LaunchSettings& settings) {
  const std::string library = shell_word(settings.library.string());
  return format_text("LD_PRELOAD={0}${{LD_PRELOAD:+:$LD_PRELOAD}} {1}=\"${{{2}:-}}\" {2}={0}",
                     library, kNvtxChainVariable, kNvtxVariable);
}

// "VAR=value VAR=value " in front of a command.
std::string prefix_assignments(const LaunchSettings& settings) {
  std::string text;
  for (const EnvironmentVariable& variable : settings.variables) text += assignment(variable) + " ";
  return text;
}

std::string library_in_container(const LaunchSettings& settings) {
  return format_text("{}/{}", kFolderInContainer, settings.library.filename().string());
}

// For launchers that start their programs with an environment of its own.
std::vector<EnvironmentVariable> new_variables(const LaunchSettings& settings,
                                               const std::string& library) {
  std::vector<EnvironmentVariable> variables = {{"LD_PRELOAD", library},
                                                {std::string(kNvtxVariable), library}};
  variables.insert(variables.end(), settings.variables.begin(), settings.variables.end());
  return variables;
}

// The settings with an output that lies in the container's mounted trace folder unless one is set.
std::vector<EnvironmentVariable> container_variables(const LaunchSettings& settings) {
  std::vector<EnvironmentVariable> variables =
      new_variables(settings, library_in_container(settings));
  const bool has_output = std::ranges::any_of(
      settings.variables,
      [](const EnvironmentVariable& variable) { return variable.name == kOutputVariable; });
  if (!has_output) {
    variables.push_back(
        {std::string(kOutputVariable), format_text("{}/%e.%h.%p.gmt", kTracesInContainer)});
  }
  return variables;
}

std::string shell_recipe(const LaunchSettings& settings) {
  std::string text = "# Paste into a POSIX shell; every program started from it is recorded.\n";
  for (const EnvironmentVariable& variable : settings.variables) {
    text += format_text("export {}\n", assignment(variable));
  }
  return text + format_text("export {}\n", shell_preload(settings)) +
         "# Off again: unset LD_PRELOAD NVTX_INJECTION64_PATH GPUMEMTRACE_NVTX_CHAIN\n";
}

std::string torchrun_recipe(const LaunchSettings& settings) {
  return "# torchrun hands its environment to every worker; each rank writes a trace.\n" +
         prefix_assignments(settings) + shell_preload(settings) +
         " \\\n  torchrun --nproc-per-node=2 train.py\n";
}

std::string srun_recipe(const LaunchSettings& settings) {
  // --export splits at commas, so the values stand before srun and only ALL is exported.
  return "# srun --export=ALL hands its environment to every task. The library must be at the "
         "same\n"
         "# path on every node, and the traces go to a folder that the nodes can write to.\n" +
         prefix_assignments(settings) + shell_preload(settings) +
         " \\\n  srun --export=ALL python3 train.py\n";
}

std::string mpirun_recipe(const LaunchSettings& settings) {
  std::string exported;
  std::string given;
  for (const EnvironmentVariable& variable : new_variables(settings, settings.library.string())) {
    exported += " -x " + assignment(variable);
    given += format_text(" -genv {} {}", variable.name, shell_word(variable.value));
  }
  return format_text(
      "# Open MPI\nmpirun{} -n 2 ./program\n# MPICH, Intel MPI\nmpirun{} -n 2 ./program\n",
      exported, given);
}

std::string docker_recipe(const LaunchSettings& settings) {
  std::string text =
      "# The container needs glibc 2.28 or newer. Traces appear in ./traces on this machine.\n"
      "docker run --gpus all \\\n";
  text += format_text("  -v {}:{}:ro \\\n", shell_word(settings.library.parent_path().string()),
                      kFolderInContainer);
  text += format_text("  -v \"$PWD/traces\":{} \\\n", kTracesInContainer);
  for (const EnvironmentVariable& variable : container_variables(settings)) {
    text += format_text("  -e {} \\\n", assignment(variable));
  }
  return text + "  IMAGE python3 train.py\n";
}

std::string kubernetes_recipe(const LaunchSettings& settings) {
  std::string text = format_text(
      "# Parts of a pod. The folder {} must hold the library on every node;\n"
      "# an image or a persistent volume with it works as well.\n"
      "spec:\n"
      "  containers:\n"
      "    - name: training\n"
      "      env:\n",
      settings.library.parent_path().string());
  for (const EnvironmentVariable& variable : container_variables(settings)) {
    text += format_text("        - name: {}\n          value: {}\n", variable.name,
                        analyzer::Json(variable.value).dump());
  }
  return text + format_text(
                    "      volumeMounts:\n"
                    "        - name: gpumemtrace\n"
                    "          mountPath: {}\n"
                    "          readOnly: true\n"
                    "        - name: traces\n"
                    "          mountPath: {}\n"
                    "  volumes:\n"
                    "    - name: gpumemtrace\n"
                    "      hostPath:\n"
                    "        path: {}\n"
                    "    - name: traces\n"
                    "      hostPath:  # of the node; a persistent volume works as well\n"
                    "        path: /var/lib/gpumemtrace/traces\n"
                    "        type: DirectoryOrCreate\n",
                    kFolderInContainer, kTracesInContainer,
                    analyzer::Json(settings.library.parent_path().string()).dump());
}

std::string ray_recipe(const LaunchSettings& settings) {
  analyzer::Json variables;
  for (const EnvironmentVariable& variable : new_variables(settings, settings.library.string())) {
    variables[variable.name] = variable.value;
  }
  return format_text(
      "# Workers take their environment from the runtime environment. The library must be at the\n"
      "# same path on every node.\n"
      "ray.init(runtime_env={{\"env_vars\": {}}})\n",
      variables.dump(4));
}

constexpr auto kRecipes = std::to_array<LaunchRecipe>({
    {"shell", shell_recipe},
    {"torchrun", torchrun_recipe},
    {"srun", srun_recipe},
    {"mpirun", mpirun_recipe},
    {"docker", docker_recipe},
    {"k8s", kubernetes_recipe},
    {"ray", ray_recipe},
});

}  // namespace

std::span<const LaunchRecipe> launch_recipes() { return kRecipes; }

}  // namespace gpumemtrace::tools
