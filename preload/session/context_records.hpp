// SPDX-License-Identifier: Apache-2.0
// Writes a record to the trace for each CUDA context that preload/driver/tracking.hpp knows.
#pragma once

#include "trace/records.hpp"

namespace gpumemtrace::preload {

// Writes a record of the context if the calling thread records; else the session does so when it
// starts or resumes. Does nothing for kNone, or while another thread is still adding the context,
// because that thread then writes the record. Any thread.
void record_context(trace::ContextId id) noexcept;

// The calling thread's current CUDA context; a record is written if the context is new. Asks the
// driver on threads where no wrapped call made a context current.
trace::ContextId current_context() noexcept;

}  // namespace gpumemtrace::preload
