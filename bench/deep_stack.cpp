// SPDX-License-Identifier: Apache-2.0
#include "bench/deep_stack.hpp"

#include <execinfo.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace gpumemtrace::bench {
namespace {

template <std::size_t kLevel>
[[gnu::noinline]] void descend(const Work& work) {
  if constexpr (kLevel == 0) {
    work.run(work.argument);
  } else {
    descend<kLevel - 1>(work);
  }
  __asm__ volatile("" ::: "memory");  // prevents a tail call
}

using Descent = void (*)(const Work&);
template <std::size_t... kLevel>
constexpr std::array<Descent, sizeof...(kLevel)> descents(std::index_sequence<kLevel...>) {
  return {descend<kLevel>...};
}
constexpr auto kDescents = descents(std::make_index_sequence<kMostLevels + 1>());

}  // namespace

void run_below(std::size_t levels, const Work& work) {
  kDescents[levels](work);
  __asm__ volatile("" ::: "memory");  // prevents a tail call
}

std::size_t frames_here() {
  void* addresses[256];
  return static_cast<std::size_t>(backtrace(addresses, 256));
}

std::size_t levels_for(std::size_t frames) {
  for (std::size_t levels = 0; levels <= kMostLevels; ++levels) {
    std::size_t found = 0;
    run_below(levels, {[](void* out) { *static_cast<std::size_t*>(out) = frames_here(); }, &found});
    // `found` counts the frame of frames_here(), which the measured call does not have.
    if (found - 1 >= frames) return levels;
  }
  throw std::runtime_error("the measuring thread's own stack is too deep.");
}

}  // namespace gpumemtrace::bench
