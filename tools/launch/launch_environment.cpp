// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launch_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tools/base/environment.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

// Places of the library and of the simulated driver, relative to the folder of this executable: in
// a build folder, in an installation, and for the library beside the executable.
constexpr auto kLibraryPlaces = std::to_array<const char*>({
    "../preload/libgpumemtrace.so",
    "../lib/gpumemtrace/libgpumemtrace.so",
    "libgpumemtrace.so",
});
constexpr auto kSimulatedDriverPlaces = std::to_array<const char*>({
    "../simulated_cuda/libcuda.so.1",
    "../lib/gpumemtrace/simulated_cuda/libcuda.so.1",
});

template <std::size_t kCount>
fs::path find_beside_executable(const std::array<const char*, kCount>& places, const char* what,
                                const char* remedy) {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  std::string searched;
  for (const char* relative : places) {
    const fs::path candidate = (folder / relative).lexically_normal();
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored)) return candidate;
    searched += format_text("{}{}", searched.empty() ? "" : ", ", candidate.string());
  }
  throw Failure(format_text("{} is not at {}; {}", what, searched, remedy));
}

// The loader splits LD_PRELOAD at colons and spaces and knows no escape.
fs::path require_preloadable(const fs::path& library) {
  if (library.string().find_first_of(": ") == std::string::npos) return library;
  throw Failure(
      format_text("LD_PRELOAD cannot hold the path '{}' because of its space or colon; "
                  "move the folder",
                  library.string()));
}

}  // namespace

fs::path find_library() {
  if (const char* named = std::getenv("GPUMEMTRACE_LIBRARY"); named != nullptr && *named != '\0') {
    std::error_code ignored;
    if (!fs::is_regular_file(named, ignored)) {
      throw Failure(format_text(
          "GPUMEMTRACE_LIBRARY names '{}', which is not a file; correct or unset it", named));
    }
    return require_preloadable(fs::absolute(named));
  }
  return require_preloadable(find_beside_executable(kLibraryPlaces,
                                                    "the recording library libgpumemtrace.so",
                                                    "build it, or name it in GPUMEMTRACE_LIBRARY"));
}

fs::path find_torch_names(const fs::path& library) {
  const fs::path folder = library.parent_path() / "python" / "torch_names";
  std::error_code ignored;
  if (fs::is_regular_file(folder / "sitecustomize.py", ignored)) return folder;
  throw Failure(
      format_text("--torch-names needs {}/sitecustomize.py, which is not there; copy the folder "
                  "python of the installation beside the library",
                  folder.string()));
}

fs::path find_simulated_driver() {
  return find_beside_executable(kSimulatedDriverPlaces, "the simulated driver libcuda.so.1",
                                "build it with the tests switched on")
      .parent_path();
}

namespace {

// True if the list, which is a value of LD_PRELOAD, has the entry. The loader splits it at colons
// and spaces.
bool list_holds(std::string_view list, std::string_view entry) {
  while (!list.empty()) {
    const std::size_t length = std::min(list.find_first_of(": "), list.size());
    if (list.substr(0, length) == entry) return true;
    list.remove_prefix(std::min(length + 1, list.size()));
  }
  return false;
}

// A variable of paths with `folder` in front, even if the list already has it further behind: the
// first entry decides.
EnvironmentVariable first_in(const char* name, const std::filesystem::path& folder) {
  const std::string list = environment_text(name);
  return {name, list.empty() ? folder.string() : folder.string() + ":" + list};
}

bool is_address_sanitizer(const std::filesystem::path& library) {
  const std::string name = library.filename().string();
  return name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan");
}

}  // namespace

EnvironmentVariable preload_variable(const std::filesystem::path& library) {
  const std::string list = environment_text("LD_PRELOAD");
  if (list.empty()) return {"LD_PRELOAD", library.string()};
  if (list_holds(list, library.string())) return {"LD_PRELOAD", list};
  // AddressSanitizer's runtime ends a program in which it is not the first library.
  const bool is_behind = is_address_sanitizer(list.substr(0, list.find_first_of(": ")));
  return {"LD_PRELOAD", is_behind ? list + ":" + library.string() : library.string() + ":" + list};
}

std::vector<EnvironmentVariable> nvtx_variables(const std::filesystem::path& library) {
  std::vector<EnvironmentVariable> variables = {{std::string(kNvtxVariable), library.string()}};
  const std::string former = environment_text(kNvtxVariable.data());
  if (!former.empty() && former != library.string()) {
    variables.push_back({std::string(kNvtxChainVariable), former});
  }
  return variables;
}

EnvironmentVariable run_variable() {
  const std::string name(kRunVariable);
  const std::string outer = environment_text(name.c_str());
  if (!outer.empty()) return {name, outer};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return {name, format_text("{:x}-{:x}", now, getpid())};
}

EnvironmentVariable library_path_variable(const std::filesystem::path& folder) {
  return first_in("LD_LIBRARY_PATH", folder);
}

EnvironmentVariable python_path_variable(const std::filesystem::path& folder) {
  return first_in(kPythonPathVariable.data(), folder);
}

}  // namespace gpumemtrace::tools
