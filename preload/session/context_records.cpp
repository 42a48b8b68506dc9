// SPDX-License-Identifier: Apache-2.0
#include "preload/session/context_records.hpp"

#include "preload/driver/tracking.hpp"
#include "preload/ring/recorder.hpp"

namespace gpumemtrace::preload {

void record_context(std::uint32_t context_id) noexcept {
  if (context_id == 0) return;
  const CallGuard guard;
  if (!session_exists() || !recording(false)) return;
  write_event<trace::Context>(guard, [&](trace::Context& record) {
    const tracking::ContextInfo info = tracking::context_info(context_id);
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
