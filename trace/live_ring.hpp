// SPDX-License-Identifier: Apache-2.0
// The ring of a process that is still running: a copy of one time, to read at leisure.
#pragma once

#include "trace/own_descriptor.hpp"

namespace gpumemtrace::trace {

// True if the process that made the ring still records into it. Asks the kernel alone.
[[nodiscard]] bool has_recorder(const OwnDescriptor& ring);

// A copy in memory, laid out as the ring is, of the chunks that hold records; without chunks that
// are reused meanwhile, because their records are in the packed file by then. So opening the packed
// file after this misses nothing. Not open if there is no memory.
OwnDescriptor copy_live_ring(const OwnDescriptor& ring);

}  // namespace gpumemtrace::trace
