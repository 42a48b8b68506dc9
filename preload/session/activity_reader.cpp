// SPDX-License-Identifier: Apache-2.0
#include "preload/session/activity_reader.hpp"

#include "preload/session/cupti_collection.hpp"
#include "preload/session/session_state.hpp"
#include "preload/session/trace_packer.hpp"

namespace gpumemtrace::preload {

// Their records fill the ring faster than calls do, so each buffer is packed before the next.
void ActivityReader::read(const CallGuard& guard) noexcept {
  const bool is_recorded = session_.is_recording();
  if (is_recorded) write_cupti_notes(guard);
  while (read_cupti_buffer(guard, is_recorded)) {
    (void)packer_.pack_sealed(guard);
    packer_.replenish_ring(guard);
  }
}

void ActivityReader::flush(const CallGuard& guard) noexcept {
  if (!is_over_) flush_cupti(guard, false);
}

// Once the process exits, libcupti's destructors may run at any moment, and it is not called again.
void ActivityReader::read_all(const CallGuard& guard) noexcept {
  if (is_over_) return;
  if (session_.is_recording()) flush_cupti(guard, true);
  read(guard);
  if (session_.ring.header().exit_seen.load() == 0) return;
  is_over_ = true;
  end(guard);
}

void ActivityReader::end(const CallGuard& guard) noexcept {
  end_reading_cupti();
  read(guard);
}

}  // namespace gpumemtrace::preload
