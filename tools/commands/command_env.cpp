// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/row_text.hpp"
#include "tools/base/shell_words.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/launch/launch_environment.hpp"
#include "tools/launch/recording_options.hpp"

namespace gpumemtrace::tools {
namespace {

// Texts to paste so that a launcher records the programs it starts.

// The settings of a recipe. The recipe itself adds LD_PRELOAD, in its launcher's own way.
struct LaunchSettings {
  std::filesystem::path library;
  std::vector<EnvironmentVariable> variables;
};

struct LaunchRecipe {
  std::string_view launcher;
  std::string (*text)(const LaunchSettings& settings);
};

constexpr const char* kFolderInContainer = "/opt/gpumemtrace";
constexpr const char* kTracesInContainer = "/traces";

std::string assignment(const EnvironmentVariable& variable) {
  return format_text("{}={}", variable.name, shell_word(variable.value));
}

// Shell assignments that put the library in front of LD_PRELOAD's value and make it NVTX's
// injection library. An injection library that was set before is passed on, for ours to load.
std::string shell_preload(const LaunchSettings& settings) {
  const std::string library = shell_word(settings.library.string());
  return format_text("LD_PRELOAD={0}${{LD_PRELOAD:+:$LD_PRELOAD}} {1}=\"${{{2}:-}}\" {2}={0}",
                     library, kNvtxChainVariable, kNvtxVariable);
}

// Assignments in front of a shell command: "VAR=value VAR=value ".
std::string prefix_assignments(const LaunchSettings& settings) {
  std::string text;
  for (const EnvironmentVariable& variable : settings.variables) text += assignment(variable) + " ";
  return text;
}

std::string library_in_container(const LaunchSettings& settings) {
  return format_text("{}/{}", kFolderInContainer, settings.library.filename().string());
}

// All variables, for launchers that do not pass on the shell's environment.
std::vector<EnvironmentVariable> new_variables(const LaunchSettings& settings,
                                               const std::string& library) {
  std::vector<EnvironmentVariable> variables = {{"LD_PRELOAD", library},
                                                {std::string(kNvtxVariable), library}};
  variables.insert(variables.end(), settings.variables.begin(), settings.variables.end());
  return variables;
}

// Adds the output's path in `folder`, unless the user set an output.
void add_output(std::vector<EnvironmentVariable>& variables, std::string_view folder) {
  const bool has_output = std::ranges::any_of(variables, [](const EnvironmentVariable& variable) {
    return variable.name == kOutputVariable;
  });
  if (has_output) return;
  variables.push_back({std::string(kOutputVariable), format_text("{}/%e.%h.%p.gmt", folder)});
}

// The variables inside a container. Paths are those of the mounted folders, because the container
// sees no others of this machine. PYTHONPATH keeps only its first folder, which is the library's.
std::vector<EnvironmentVariable> container_variables(const LaunchSettings& settings) {
  std::vector<EnvironmentVariable> variables =
      new_variables(settings, library_in_container(settings));
  const std::string here = settings.library.parent_path().string();
  for (EnvironmentVariable& variable : variables) {
    if (variable.name != kPythonPathVariable || !variable.value.starts_with(here)) continue;
    const std::string first = variable.value.substr(0, variable.value.find(':'));
    variable.value = kFolderInContainer + first.substr(here.size());
  }
  add_output(variables, kTracesInContainer);
  return variables;
}

// Quotes a text for YAML, for JSON, and for a systemd unit's double quotes.
std::string double_quoted(const std::string& text) { return analyzer::json_text(text); }

std::string json_object(const std::vector<EnvironmentVariable>& variables) {
  std::vector<std::string> members;
  for (const EnvironmentVariable& variable : variables) {
    members.push_back(
        format_text("    {}: {}", double_quoted(variable.name), double_quoted(variable.value)));
  }
  return "{\n" + joined(members, ",\n") + "\n}";
}

std::string shell_recipe(const LaunchSettings& settings) {
  std::string text = "# Paste into a POSIX shell; every program started from it is recorded.\n";
  for (const EnvironmentVariable& variable : settings.variables) {
    text += format_text("export {}\n", assignment(variable));
  }
  return text + format_text("export {}\n", shell_preload(settings)) +
         "# Off again: unset LD_PRELOAD NVTX_INJECTION64_PATH GPUMEMTRACE_NVTX_CHAIN\n";
}

// The recipe for a launcher that passes its environment on to its workers.
std::string inherited_environment_recipe(const LaunchSettings& settings, std::string_view launcher,
                                         std::string_view command) {
  return format_text("# {} hands its environment to every worker; each rank writes a trace.\n",
                     launcher) +
         prefix_assignments(settings) + shell_preload(settings) +
         format_text(" \\\n  {}\n", command);
}

std::string torchrun_recipe(const LaunchSettings& settings) {
  return inherited_environment_recipe(settings, "torchrun", "torchrun --nproc-per-node=2 train.py");
}

std::string accelerate_recipe(const LaunchSettings& settings) {
  return inherited_environment_recipe(settings, "accelerate", "accelerate launch train.py");
}

std::string deepspeed_recipe(const LaunchSettings& settings) {
  std::string text =
      inherited_environment_recipe(settings, "On one node, deepspeed", "deepspeed train.py") +
      "# On several nodes it exports the lines of ~/.deepspeed_env. The library must "
      "be at the\n# same path on every node.\ncat >> ~/.deepspeed_env <<'END'\n";
  for (const EnvironmentVariable& variable : new_variables(settings, settings.library.string())) {
    text += format_text("{}={}\n", variable.name, variable.value);
  }
  return text + "END\n";
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

std::string compose_recipe(const LaunchSettings& settings) {
  std::string text =
      "# Parts of a service in compose.yaml. The image needs glibc 2.28 or newer.\n"
      "services:\n"
      "  training:\n"
      "    environment:\n";
  for (const EnvironmentVariable& variable : container_variables(settings)) {
    // Compose puts variables of its own in place of a single dollar.
    text += format_text("      {}: {}\n", variable.name,
                        double_quoted(replaced(variable.value, {{'$', "$$"}})));
  }
  return text + format_text(
                    "    volumes:\n"
                    "      - type: bind\n"
                    "        source: {}\n"
                    "        target: {}\n"
                    "        read_only: true\n"
                    "      - ./traces:{}\n",
                    double_quoted(replaced(settings.library.parent_path().string(), {{'$', "$$"}})),
                    kFolderInContainer, kTracesInContainer);
}

std::string dockerfile_recipe(const LaunchSettings& settings) {
  std::string text = format_text(
      "# The last lines of a Dockerfile: what is built after them would be recorded, too.\n"
      "# First put the library into the build context:\n"
      "#   cp -r {} gpumemtrace\n"
      "# The image needs glibc 2.28 or newer. Traces go to {}: mount a folder there.\n"
      "COPY gpumemtrace {}\n",
      shell_word(settings.library.parent_path().string()), kTracesInContainer, kFolderInContainer);
  for (const EnvironmentVariable& variable : container_variables(settings)) {
    text += format_text("ENV {}\n", assignment(variable));
  }
  return text;
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
    // Kubernetes puts a variable's value in place of $(NAME), and one dollar in place of two.
    text += format_text("        - name: {}\n          value: {}\n", variable.name,
                        double_quoted(replaced(variable.value, {{'$', "$$"}})));
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
                    double_quoted(settings.library.parent_path().string()));
}

std::string ray_recipe(const LaunchSettings& settings) {
  return format_text(
      "# Workers take their environment from the runtime environment. The library must be at the\n"
      "# same path on every node.\n"
      "ray.init(runtime_env={{\"env_vars\": {}}})\n",
      json_object(new_variables(settings, settings.library.string())));
}

std::string systemd_recipe(const LaunchSettings& settings) {
  std::vector<EnvironmentVariable> variables = new_variables(settings, settings.library.string());
  add_output(variables, "/var/lib/gpumemtrace");
  std::string text =
      "# Put this into `systemctl edit NAME.service` and restart the service. StateDirectory "
      "makes\n"
      "# /var/lib/gpumemtrace, where its user can write.\n"
      "[Service]\n"
      "StateDirectory=gpumemtrace\n";
  for (const EnvironmentVariable& variable : variables) {
    // systemd replaces what stands behind a single percent sign.
    const std::string text_of_variable = format_text("{}={}", variable.name, variable.value);
    text +=
        format_text("Environment={}\n", double_quoted(replaced(text_of_variable, {{'%', "%%"}})));
  }
  return text;
}

std::string jupyter_recipe(const LaunchSettings& settings) {
  constexpr const char* kFolder = "~/.local/share/jupyter/kernels/gpumemtrace";
  return format_text(
      "# Adds the kernel \"Python 3, recorded\". The trace is written where the notebook lies.\n"
      "mkdir -p {0} && cat > {0}/kernel.json <<'END'\n"
      "{{\n"
      "\"argv\": [\"python3\", \"-m\", \"ipykernel_launcher\", \"-f\", "
      "\"{{connection_file}}\"],\n"
      "\"display_name\": \"Python 3, recorded\",\n"
      "\"language\": \"python\",\n"
      "\"env\": {1}\n"
      "}}\n"
      "END\n"
      "# Off again: rm -r {0}\n",
      kFolder, json_object(new_variables(settings, settings.library.string())));
}

constexpr auto kRecipes = std::to_array<LaunchRecipe>({
    {"shell", shell_recipe},
    {"torchrun", torchrun_recipe},
    {"accelerate", accelerate_recipe},
    {"deepspeed", deepspeed_recipe},
    {"srun", srun_recipe},
    {"slurm", srun_recipe},
    {"mpirun", mpirun_recipe},
    {"docker", docker_recipe},
    {"compose", compose_recipe},
    {"dockerfile", dockerfile_recipe},
    {"k8s", kubernetes_recipe},
    {"ray", ray_recipe},
    {"systemd", systemd_recipe},
    {"jupyter", jupyter_recipe},
});

// The recipes that `--for` can name; the first is for a plain shell.
std::span<const LaunchRecipe> launch_recipes() { return kRecipes; }

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
