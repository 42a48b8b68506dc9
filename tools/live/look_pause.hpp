// SPDX-License-Identifier: Apache-2.0
// The pause between two refreshes of a running job.
#pragma once

#include <chrono>

namespace gpumemtrace::tools {

// The pause after a look that took so much processor time: at least the interval. A job that calls
// more often than this leaves time for would make each look longer than the one before, without
// end: so at most ten seconds, if the interval is not longer.
[[nodiscard]] std::chrono::nanoseconds pause_after_look(std::chrono::nanoseconds took,
                                                        std::chrono::nanoseconds interval);

}  // namespace gpumemtrace::tools
