// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace gpumemtrace::bench {

// The folder `bench` of the build folder, which holds this program, or the one that
// GPUMEMTRACE_BENCH_PROGRAMS names. Other files are found from there, so that a build folder can be
// carried to another machine.
[[nodiscard]] std::filesystem::path bench_folder();

// The path of the same build's libgpumemtrace.so, or the value of GPUMEMTRACE_BENCH_PRELOAD.
[[nodiscard]] std::filesystem::path preload_path();

}  // namespace gpumemtrace::bench
