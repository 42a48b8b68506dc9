// SPDX-License-Identifier: Apache-2.0
// The cost of native call stacks, measured at blocks of PyTorch's allocator: on a thread without
// Python frames a block that is handed out gets native frames and one that is taken back gets none,
// so that the difference of the two is the stack.
#pragma once

#include <vector>

#include "bench/recorder_phases.hpp"

namespace gpumemtrace::bench {

// A stack of 20 frames that was seen before, on one thread and on as many as there are processors;
// and stacks that are met for the first time.
[[nodiscard]] std::vector<Row> measure_native_stacks(const RecorderBench& bench);

}  // namespace gpumemtrace::bench
