// SPDX-License-Identifier: Apache-2.0
// What `gpumemtrace ctl` asks of a recording, through the ring's header.
#pragma once

#include <cstddef>

#include "preload/session/session.hpp"
#include "preload/session/session_state.hpp"

namespace gpumemtrace::preload {

// Carries out a command that has come, then answers it. `resumed()` is called in between where the
// recording goes on by it, after a pause. The background thread.
template <class Resumed>
void obey_mailbox(const CallGuard& guard, Session& session, Resumed&& resumed) noexcept {
  trace::ControlMailbox& mailbox = session.ring.header().mailbox;
  const std::uint32_t requested =
      mailbox.requested.load(std::memory_order_acquire);  // pairs with ctl's release
  if (requested == mailbox.answered.load()) return;
  switch (mailbox.command) {
    case trace::ControlCommand::kStart:
      if (resume_recording(guard)) resumed();
      break;
    case trace::ControlCommand::kStop:
      (void)pause_recording(guard);
      break;
    case trace::ControlCommand::kMark: {
      const std::size_t size =
          mailbox.text_bytes < sizeof mailbox.text ? mailbox.text_bytes : sizeof mailbox.text;
      (void)write_mark(trace::MarkKind::kUser, {mailbox.text, size});
      break;
    }
    case trace::ControlCommand::kNone:
      break;
  }
  mailbox.answered.store(requested);
}

}  // namespace gpumemtrace::preload
