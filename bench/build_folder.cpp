// SPDX-License-Identifier: Apache-2.0
#include "bench/build_folder.hpp"

#include <cstdlib>

namespace gpumemtrace::bench {

std::filesystem::path bench_folder() {
  if (const char* chosen = std::getenv("GPUMEMTRACE_BENCH_PROGRAMS")) return chosen;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::filesystem::path preload_path() {
  if (const char* chosen = std::getenv("GPUMEMTRACE_BENCH_PRELOAD")) {
    return std::filesystem::absolute(chosen);
  }
  return bench_folder().parent_path() / "preload" / "libgpumemtrace.so";
}

}  // namespace gpumemtrace::bench
