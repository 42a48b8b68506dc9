// SPDX-License-Identifier: Apache-2.0
#include "preload/session/activity_reader.hpp"

#include "cupti/collection.hpp"
#include "preload/session/cupti_collection.hpp"
#include "preload/session/session_state.hpp"
#include "preload/session/trace_packer.hpp"

namespace gpumemtrace::preload {

// Their records fill the ring faster than calls do, so each buffer is packed before the next.
void ActivityReader::read(const CallGuard& guard) noexcept {
  const bool is_recorded = session_.is_recording();
  cupti::Collection& collection = cupti::the_collection();
  if (is_recorded) collection.write_notes(kCuptiRecorder);
  while (collection.read_one(is_recorded ? &kCuptiRecorder : nullptr)) {
    packer_.pack_sealed(guard);
    packer_.replenish_ring(guard);
  }
}

void ActivityReader::flush(const CallGuard&) noexcept {
  if (!is_over_) cupti::the_collection().flush(false, kCuptiRecorder);
}

// Once the process exits, libcupti's destructors may run at any moment, and it is not called again.
void ActivityReader::read_all(const CallGuard& guard) noexcept {
  if (is_over_) return;
  if (session_.is_recording()) cupti::the_collection().flush(true, kCuptiRecorder);
  read(guard);
  if (session_.ring.header().exit_seen.load() == 0) return;
  is_over_ = true;
  end(guard);
}

void ActivityReader::end(const CallGuard& guard) noexcept {
  cupti::the_collection().set_reading(false);
  read(guard);
}

}  // namespace gpumemtrace::preload
