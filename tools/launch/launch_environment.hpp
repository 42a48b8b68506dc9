// SPDX-License-Identifier: Apache-2.0
// Makes the environment in which a program is recorded, and finds gpumemtrace's other files: next
// to this executable in a build folder or an installation.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/launch/recording_options.hpp"

namespace gpumemtrace::tools {

// Finds the recording library: the file that GPUMEMTRACE_LIBRARY names, else a place relative to
// this executable. Throws Failure if it is not found, naming the searched places, or if LD_PRELOAD
// cannot hold its path.
[[nodiscard]] std::filesystem::path find_library();

// The folder beside the library with the sitecustomize.py that --torch-names needs. Throws Failure
// if that file is missing.
[[nodiscard]] std::filesystem::path find_torch_names(const std::filesystem::path& library);

// The folder that holds the simulated libcuda.so.1. Throws Failure.
[[nodiscard]] std::filesystem::path find_simulated_driver();

// LD_PRELOAD with `library` added once: in front of the present value, or behind it if that begins
// with AddressSanitizer's runtime.
[[nodiscard]] EnvironmentVariable preload_variable(const std::filesystem::path& library);

// kNvtxVariable names the library that NVTX loads at its first use. If the user has set it already,
// kNvtxChainVariable takes the user's value, and our library loads that one, too.
inline constexpr std::string_view kNvtxVariable = "NVTX_INJECTION64_PATH";
inline constexpr std::string_view kNvtxChainVariable = "GPUMEMTRACE_NVTX_CHAIN";

// Variables that make `library` NVTX's tool, which then loads a tool that was set before.
[[nodiscard]] std::vector<EnvironmentVariable> nvtx_variables(const std::filesystem::path& library);

inline constexpr std::string_view kRunVariable = "GPUMEMTRACE_RUN_ID";
// kRunVariable with an id that all processes of a `gpumemtrace run` share: the present value, so
// that a run within a run belongs to the outer one, else a new id.
[[nodiscard]] EnvironmentVariable run_variable();

// LD_LIBRARY_PATH with `folder` in front of what is there already.
[[nodiscard]] EnvironmentVariable library_path_variable(const std::filesystem::path& folder);

// Python's search path. At its start, Python imports the sitecustomize module of the first folder
// that has one.
inline constexpr std::string_view kPythonPathVariable = "PYTHONPATH";
// PYTHONPATH with `folder` in front of the present value.
[[nodiscard]] EnvironmentVariable python_path_variable(const std::filesystem::path& folder);

}  // namespace gpumemtrace::tools
