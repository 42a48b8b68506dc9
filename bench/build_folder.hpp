// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace gpumemtrace::bench {

// The build folder's `bench`, where this program stands: what it needs is found from there, so a
// build folder can be carried to another machine.
[[nodiscard]] std::filesystem::path bench_folder();

// libgpumemtrace.so of the same build, or what GPUMEMTRACE_BENCH_PRELOAD names.
[[nodiscard]] std::filesystem::path preload_path();

}  // namespace gpumemtrace::bench
