// SPDX-License-Identifier: Apache-2.0
// The environment in which a program is recorded, and this program's other parts: beside it in a
// build folder, or as installed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/launch/recording_options.hpp"

namespace gpumemtrace::tools {

// The recording library: what GPUMEMTRACE_LIBRARY names, else relative to this executable. Throws
// Failure that says where it looked, and also if LD_PRELOAD could not take the path.
[[nodiscard]] std::filesystem::path find_library();

// The folder beside the library with the sitecustomize that --torch-names needs. Throws Failure.
[[nodiscard]] std::filesystem::path find_torch_names(const std::filesystem::path& library);

// The folder that holds the simulated libcuda.so.1. Throws Failure.
[[nodiscard]] std::filesystem::path find_simulated_driver();

// LD_PRELOAD with `library` in front of what is there already, never twice; behind it where that
// begins with AddressSanitizer's runtime.
[[nodiscard]] EnvironmentVariable preload_variable(const std::filesystem::path& library);

// Names the library that NVTX loads at its first use, and where ours keeps the one that was named
// before.
inline constexpr std::string_view kNvtxVariable = "NVTX_INJECTION64_PATH";
inline constexpr std::string_view kNvtxChainVariable = "GPUMEMTRACE_NVTX_CHAIN";

// Makes `library` NVTX's tool, which starts the one that is there already.
[[nodiscard]] std::vector<EnvironmentVariable> nvtx_variables(const std::filesystem::path& library);

inline constexpr std::string_view kRunVariable = "GPUMEMTRACE_RUN_ID";
// The variable that the processes of one run share. A run within a run is a part of the outer one.
[[nodiscard]] EnvironmentVariable run_variable();

// LD_LIBRARY_PATH with `folder` in front of what is there already.
[[nodiscard]] EnvironmentVariable library_path_variable(const std::filesystem::path& folder);

// Python imports the sitecustomize of the first folder in it that has one, when it starts.
inline constexpr std::string_view kPythonPathVariable = "PYTHONPATH";
// The variable with `folder` first.
[[nodiscard]] EnvironmentVariable python_path_variable(const std::filesystem::path& folder);

}  // namespace gpumemtrace::tools
