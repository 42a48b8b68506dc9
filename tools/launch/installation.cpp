// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/installation.hpp"

#include <array>
#include <cstdlib>
#include <string>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

// Relative to the folder of the executable: the build folder first, then the installed places.
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

}  // namespace gpumemtrace::tools
