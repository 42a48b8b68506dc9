// SPDX-License-Identifier: Apache-2.0
// The processor time, wall time and memory of work that runs in a child process.
#pragma once

#include <functional>

namespace gpumemtrace::bench {

struct Usage {
  double processor_s = 0;
  double wall_s = 0;
  double peak_mib = 0;
};

// Runs `work` in a child process. Throws std::runtime_error if that fails.
[[nodiscard]] Usage measure_child(const std::function<void()>& work);

}  // namespace gpumemtrace::bench
