// SPDX-License-Identifier: Apache-2.0
// Which processor runs what. The recorder's background thread reads what the traced thread has
// written; on the same core it would leave those lines in that core's cache, and the next records
// would be cheaper there than they are on a machine with cores to spare.
#pragma once

#include <cstddef>
#include <vector>

namespace gpumemtrace::bench {

// The processors that this process may use; never empty.
[[nodiscard]] std::vector<int> allowed_processors();

// Binds the calling thread, and threads that it starts from now on.
void run_on(const std::vector<int>& processors);

// Nanoseconds for a cache line to go from one processor to the other and back, the best of many
// tries; 0 if the two are one. On virtual machines it can change from run to run.
[[nodiscard]] double measure_round_trip_ns(int from, int to);

}  // namespace gpumemtrace::bench
