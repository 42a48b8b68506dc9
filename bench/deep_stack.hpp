// SPDX-License-Identifier: Apache-2.0
// Calls from many frames deep, for what recorders of call stacks cost.
#pragma once

#include <cstddef>

namespace gpumemtrace::bench {

// The work at the innermost frame.
struct Work {
  void (*run)(void* argument);
  void* argument;
};

inline constexpr std::size_t kMostLevels = 63;

// Runs the work below so many frames of functions that each have code of their own, so that all
// return addresses differ, as in real stacks.
void run_below(std::size_t levels, const Work& work);

// The levels that make a stack of so many frames at the call. Throws std::runtime_error if the
// caller's own stack is too deep.
[[nodiscard]] std::size_t levels_for(std::size_t frames);

// The frames from here to the thread's start, as glibc's backtrace() counts them.
[[nodiscard]] std::size_t frames_here();

}  // namespace gpumemtrace::bench
