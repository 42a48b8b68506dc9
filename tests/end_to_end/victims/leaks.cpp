// SPDX-License-Identifier: Apache-2.0
// Leaks device memory through functions whose source lines the test knows: called, inlined and
// recursive functions.
#include <cstddef>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

// Keeps the function's stack frame, which the compiler's inlining, tail calls or clones would hide.
#if defined(__clang__)
#define GPUMEMTRACE_KEPT [[gnu::noinline]]
#else
#define GPUMEMTRACE_KEPT [[gnu::noinline, gnu::noclone]]
#endif
inline void stay_in_frame() { __asm__ volatile("" ::: "memory"); }

GPUMEMTRACE_KEPT void leak(std::size_t bytes) {
  allocate(bytes);
  stay_in_frame();
}

[[gnu::always_inline]] inline void innermost(std::size_t bytes) {
  leak(bytes);
  stay_in_frame();
}
[[gnu::always_inline]] inline void inlined_twice(std::size_t bytes) {
  innermost(bytes + 512);
  stay_in_frame();
}
GPUMEMTRACE_KEPT void leak_through_inlined_functions() {
  inlined_twice(512);
  innermost(4096);
}

GPUMEMTRACE_KEPT void leak_by_recursion(int depth) {
  if (depth > 0) {
    leak_by_recursion(depth - 1);
  } else {
    leak(7168);
  }
  stay_in_frame();
}

template <class Value>
struct Buffer {
  GPUMEMTRACE_KEPT explicit Buffer(std::size_t count) {
    leak(count * sizeof(Value));
    stay_in_frame();
  }
};

}  // namespace
}  // namespace gpumemtrace::victims

int main() {
  using namespace gpumemtrace::victims;
  start_driver();
  leak_through_inlined_functions();
  leak_by_recursion(3);
  const Buffer<double> buffer(1000);
  static_cast<void>(buffer);
  return 0;
}
