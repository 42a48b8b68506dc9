// SPDX-License-Identifier: Apache-2.0
// The places of this program's other parts: beside it in a build folder, or as installed.
#pragma once

#include <filesystem>

namespace gpumemtrace::tools {

// The recording library: what GPUMEMTRACE_LIBRARY names, else relative to this executable. Throws
// Failure that says where it looked, and also if LD_PRELOAD could not take the path.
[[nodiscard]] std::filesystem::path find_library();

// The folder beside the library with the sitecustomize that --torch-names needs. Throws Failure.
[[nodiscard]] std::filesystem::path find_torch_names(const std::filesystem::path& library);

// The folder that holds the simulated libcuda.so.1. Throws Failure.
[[nodiscard]] std::filesystem::path find_simulated_driver();

}  // namespace gpumemtrace::tools
