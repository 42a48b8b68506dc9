// SPDX-License-Identifier: Apache-2.0
// Measures the cost of native call stacks at blocks of PyTorch's allocator: on a thread without
// Python frames an allocated block gets native frames and a freed block gets none, so that the
// difference of the two is the cost of the stack.
#pragma once

#include <vector>

#include "bench/recorder_phases.hpp"

namespace gpumemtrace::bench {

// Measures stacks of 20 frames that were seen before, on one thread and on as many as there are
// processors, and stacks that are seen for the first time.
[[nodiscard]] std::vector<Row> measure_native_stacks(const RecorderBench& bench);

}  // namespace gpumemtrace::bench
