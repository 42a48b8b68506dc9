// SPDX-License-Identifier: Apache-2.0
// Keys of texts that show which traces were recorded together, beside TextKey::kJob.
#pragma once

#include "trace/records.hpp"

namespace gpumemtrace::trace {

// The number of earlier starts of the job by the scheduler.
inline constexpr auto kAttemptText = static_cast<TextKey>(26);
// The id of the `gpumemtrace run` that started the process.
inline constexpr auto kRunText = static_cast<TextKey>(27);

}  // namespace gpumemtrace::trace
