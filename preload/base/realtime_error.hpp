// SPDX-License-Identifier: Apache-2.0
// The kernel's own estimate of how far the machine's time of day is from the true one: the bound
// on comparing times of several machines.
#pragma once

#include "trace/records.hpp"

namespace gpumemtrace::preload {

// Fills in the `realtime_` fields of the record. Does not change the machine's clock, and needs no
// privilege.
void ask_realtime_error(trace::Clock& clock) noexcept;

}  // namespace gpumemtrace::preload
