// SPDX-License-Identifier: Apache-2.0
#include "preload/session/context_records.hpp"

#include "preload/driver/tracking.hpp"
#include "preload/ring/recorder.hpp"

namespace gpumemtrace::preload {

void record_context(std::uint32_t context_id) noexcept {
  const tracking::ContextInfo info = tracking::context_info(context_id);
  if (info.handle == 0) return;
  const CallGuard guard;
  // Waits for a start that is under way: what stands at the start of the trace may be without it.
  if (!recording(false)) return;
  (void)write_event<trace::Context>(guard, [&](trace::Context& record) {
    record.id = context_id;
    record.handle = info.handle;
    record.device = info.device;
    record.primary = info.primary ? 1 : 0;
  });
}

std::uint32_t current_context() noexcept {
  const std::uint32_t known = thread_state.context;
  if (known != 0) [[likely]]
    return known;
  record_context(tracking::ask_current_context());
  return thread_state.context;
}

}  // namespace gpumemtrace::preload
