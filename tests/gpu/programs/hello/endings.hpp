// SPDX-License-Identifier: Apache-2.0
// The ways in which a program ends: by returning from main, by _exit, or with its clean-up in an
// atexit handler or in the destructor of a static object.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace gpumemtrace::gpu_tests {

using CleanUp = void (*)();

class CleanUpAtDestruction {
 public:
  explicit CleanUpAtDestruction(CleanUp clean_up) : clean_up_(clean_up) {}
  CleanUpAtDestruction(const CleanUpAtDestruction&) = delete;
  CleanUpAtDestruction& operator=(const CleanUpAtDestruction&) = delete;
  ~CleanUpAtDestruction() { clean_up_(); }

 private:
  CleanUp clean_up_;
};

// Cleans up and ends as `ending` says: exit, quick, atexit or static. The handler and the static
// object are registered after the CUDA runtime's own, so they run before the runtime is gone.
inline int end_program(const char* ending, CleanUp clean_up) {
  if (std::strcmp(ending, "atexit") == 0) {
    std::atexit(clean_up);
    return 0;
  }
  if (std::strcmp(ending, "static") == 0) {
    static const CleanUpAtDestruction at_destruction(clean_up);
    return 0;
  }
  clean_up();
  if (std::strcmp(ending, "quick") == 0) _exit(0);
  return 0;
}

}  // namespace gpumemtrace::gpu_tests
