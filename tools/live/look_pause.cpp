// SPDX-License-Identifier: Apache-2.0
#include "tools/live/look_pause.hpp"

#include <algorithm>

namespace gpumemtrace::tools {
namespace {

// The pause after a look, as a multiple of the processor time that the look took.
constexpr int kRest = 50;
constexpr std::chrono::seconds kMostRest{10};

}  // namespace

std::chrono::nanoseconds pause_after_look(std::chrono::nanoseconds took,
                                          std::chrono::nanoseconds interval) {
  return std::max(interval, std::min<std::chrono::nanoseconds>(kRest * took, kMostRest));
}

}  // namespace gpumemtrace::tools
