// SPDX-License-Identifier: Apache-2.0
// Calls from deep stacks, to measure the cost of recording call stacks.
#pragma once

#include <cstddef>

namespace gpumemtrace::bench {

// The work that the innermost frame runs.
struct Work {
  void (*run)(void* argument);
  void* argument;
};

inline constexpr std::size_t kMostLevels = 63;

// Runs the work below `levels` frames. Each frame belongs to another function with its own code, so
// that all return addresses differ, as in real stacks.
void run_below(std::size_t levels, const Work& work);

// The levels that make a stack of `frames` frames at the measured call. Throws std::runtime_error
// if the caller's own stack is too deep.
[[nodiscard]] std::size_t levels_for(std::size_t frames);

// The number of frames from the caller to the thread's start, as glibc's backtrace() counts them.
[[nodiscard]] std::size_t frames_here();

}  // namespace gpumemtrace::bench
