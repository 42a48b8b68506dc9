// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace gpumemtrace::tools {

// Runs `work`, which throws nothing, and gives its result. If the limit of stacks (`ulimit -s`) is
// small, `work` and the threads that it starts get larger ones: libdw alone needs 150 KiB to read
// the lines of a file.
//
// `work` then runs on a thread of its own, which takes all signals.
[[nodiscard]] int with_enough_stack(const std::function<int()>& work);

}  // namespace gpumemtrace::tools
