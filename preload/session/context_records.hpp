// SPDX-License-Identifier: Apache-2.0
// Writes the contexts that preload/driver/tracking.hpp knows as records of the trace.
#pragma once

#include "trace/records.hpp"

namespace gpumemtrace::preload {

// Writes the context's record if the calling thread records; else the recording does so when it
// starts or goes on. Nothing for kNone, or if the context's own thread is about to. Any thread.
void record_context(trace::ContextId id) noexcept;

// The calling thread's current context; its record is written if it is a new one. Asks the
// driver on threads where no wrapped call made one current.
trace::ContextId current_context() noexcept;

}  // namespace gpumemtrace::preload
