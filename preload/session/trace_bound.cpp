// SPDX-License-Identifier: Apache-2.0
#include "preload/session/trace_bound.hpp"

#include "preload/base/clock.hpp"
#include "preload/checkpoint/checkpoint.hpp"
#include "preload/ring/packer.hpp"
#include "preload/session/session_state.hpp"
#include "preload/session/trace_packer.hpp"

namespace gpumemtrace::preload {

// The pause until the next checkpoint grows with the file, so that the cost an event stays the
// same.
void TraceBound::keep(const CallGuard& guard, KeepUp* keep_up, void* owner) noexcept {
  const std::uint64_t bound = session_.config.max_trace_bytes;
  if (next_checkpoint_bytes_ == 0) next_checkpoint_bytes_ = bound - bound / 8;
  if (session_.writer.bytes() < next_checkpoint_bytes_ || session_.ending.load()) return;
  CheckpointRequest request;
  request.path = session_.path.c_str();
  request.keep_bytes = bound / 2;
  request.limit_ticks = ticks();
  packer_.pack_sealed(guard);
  packer_.pack_active(guard);
  request.limit_ticks = first_unpacked_ticks(session_.ring, request.limit_ticks);
  request.owner = owner;
  request.keep_up = keep_up;
  int error = 0;
  if (make_checkpoint(session_.writer, request, error) == CheckpointResult::kFailed) {
    packer_.stop_for_file(guard, "a checkpoint of the trace could not be made", error);
  }
  const std::uint64_t later = session_.writer.bytes() + bound / 4;
  next_checkpoint_bytes_ = later > bound - bound / 8 ? later : bound - bound / 8;
}

}  // namespace gpumemtrace::preload
