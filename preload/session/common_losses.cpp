// SPDX-License-Identifier: Apache-2.0
#include "preload/session/common_losses.hpp"

#include "preload/ring/recorder.hpp"
#include "preload/session/session_state.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {

void CommonLosses::write_new(const CallGuard& guard, const Session& session) noexcept {
  const std::uint64_t stacks = stacks_without_room();
  // Relaxed: a counter, nothing is ordered by it.
  const std::uint64_t parts =
      session.ring.header().calls_taken_for_parts.load(std::memory_order_relaxed);
  if (stacks == stacks_written_ && parts == parts_written_) return;
  (void)write_event<trace::Gap>(guard, [&](trace::Gap& gap) {
    gap.since = since_ticks_;
    gap.stacks = stacks - stacks_written_;
    gap.parts = parts - parts_written_;
  });
  stacks_written_ = stacks;
  parts_written_ = parts;
  since_ticks_ = ticks();
}

}  // namespace gpumemtrace::preload
