// SPDX-License-Identifier: Apache-2.0
// Contexts as records: what the trace says of each that preload/driver/tracking.hpp knows.
#pragma once

#include "trace/records.hpp"

namespace gpumemtrace::preload {

// Writes the context's record where the calling thread records; else the recording does so when it
// starts or goes on. Nothing for kNone, or where the context's own thread is about to. Any thread.
void record_context(trace::ContextId id) noexcept;

// The calling thread's current context; its record is written where it is a new one. Asks the
// driver on threads where no wrapped call made one current.
trace::ContextId current_context() noexcept;

}  // namespace gpumemtrace::preload
