// SPDX-License-Identifier: Apache-2.0
#include "preload/session/context_records.hpp"

#include "preload/driver/tracking.hpp"
#include "preload/ring/recorder.hpp"

namespace gpumemtrace::preload {

void record_context(trace::ContextId id) noexcept {
  const tracking::ContextInfo info = tracking::context_info(id);
  if (info.handle == 0) return;
  const CallGuard guard;
  // recording() waits while a session is being started: the start may not write this context's
  // record.
  if (!recording(/*may_start=*/false)) return;  // mutant: start_not_awaited_by_context
  (void)write_event<trace::Context>(guard, [&](trace::Context& record) {
    record.id = id;
    record.handle = info.handle;
    record.device = info.device;
    record.primary = info.primary ? 1 : 0;
  });
}

trace::ContextId current_context() noexcept {
  const trace::ContextId known = thread_state.context;
  if (known != trace::ContextId::kNone) [[likely]]
    return known;
  record_context(tracking::ask_current_context());
  return thread_state.context;
}

}  // namespace gpumemtrace::preload
