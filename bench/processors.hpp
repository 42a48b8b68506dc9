// SPDX-License-Identifier: Apache-2.0
// Binds threads to processors. The recorder's background thread reads the cache lines that the
// traced thread has written; on the same core it would leave them in that core's cache, and the
// next records would be cheaper than on a machine with cores to spare.
#pragma once

#include <cstddef>
#include <vector>

namespace gpumemtrace::bench {

// The processors on which this process may run; never empty.
[[nodiscard]] std::vector<int> allowed_processors();

// Binds the calling thread, and threads that it starts from now on, to these processors.
void run_on(const std::vector<int>& processors);

// The nanoseconds in which a cache line goes from one processor to the other and back, the best of
// many tries; 0 if `from` and `to` are equal. On virtual machines it can change from run to run.
[[nodiscard]] double measure_round_trip_ns(int from, int to);

}  // namespace gpumemtrace::bench
