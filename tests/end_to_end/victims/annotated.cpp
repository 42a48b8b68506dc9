// SPDX-License-Identifier: Apache-2.0
// Annotates its work through gpumemtrace.h: two steps with a range each; the first annotations come
// before any CUDA call. `pause` also allocates while the recording is paused. `long` takes 200,000
// steps. `window` does so, too, and leaks 1 MiB before the mark from which leaks count and 1 KiB
// after it.
#include <string_view>

#include "preload/api/gpumemtrace.h"
#include "tests/end_to_end/victims/driver_calls.hpp"

int main(int argc, char** argv) {
  using namespace gpumemtrace::victims;
  const bool pause = argc > 1 && std::string_view(argv[1]) == "pause";
  const bool window = argc > 1 && std::string_view(argv[1]) == "window";
  const bool is_long = window || (argc > 1 && std::string_view(argv[1]) == "long");
  const int steps = is_long ? 200'000 : 2;
  gpumemtrace_step();  // step 0 has no CUDA call
  gpumemtrace_push("too early");
  gpumemtrace_pop();
  if (pause) gpumemtrace_stop();
  start_driver();
  if (pause) {
    free_memory(allocate(1000));
    gpumemtrace_start();
  }
  if (window) {
    allocate(1 << 20);
    gpumemtrace_mark(GPUMEMTRACE_LEAKS_FROM_HERE);
  }
  for (int step = 1; step <= steps; ++step) {
    gpumemtrace_step();
    gpumemtrace_push("forward");
    const auto kept = allocate(1 << 20);
    gpumemtrace_push("inner");
    const auto inner = allocate(1 << 20);
    gpumemtrace_pop();
    free_memory(inner);
    gpumemtrace_pop();
    gpumemtrace_mark("between");
    free_memory(kept);
    if (pause) {
      gpumemtrace_stop();
      free_memory(allocate(1000));
      gpumemtrace_start();
    }
  }
  gpumemtrace_pop();  // one pop more than pushes
  if (window) allocate(1 << 10);
  std::puts("done");
  return 0;
}
