// SPDX-License-Identifier: Apache-2.0
#include "preload/session/trace_packer.hpp"

#include "cupti/collection.hpp"
#include "preload/base/clock.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/base/message.hpp"
#include "preload/checkpoint/checkpoint.hpp"
#include "preload/ring/packer.hpp"
#include "preload/session/cupti_collection.hpp"
#include "preload/session/session.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kLeastSlackBytes = 256 << 20;

}  // namespace

void TracePacker::pack_sealed(const CallGuard& guard) noexcept {
  pack_on_file_thread(guard,
                      [&](auto append) noexcept { preload::pack_sealed(session_.ring, append); });
}

void TracePacker::pack_active(const CallGuard& guard) noexcept {
  pack_on_file_thread(guard,
                      [&](auto append) noexcept { preload::pack_active(session_.ring, append); });
}

// Packs all chunks in one step on the file thread, because each step costs two switches of threads.
// The calling (background) thread then ends the recording if it must, and prints why.
template <class Pack>
void TracePacker::pack_on_file_thread(const CallGuard& guard, Pack&& pack) noexcept {
  Refusal refusal = Refusal::kNone;
  int error = 0;
  file_thread::run([&]() noexcept {
    pack([&](const Span& span) noexcept {
      if (refusal == Refusal::kNone) refusal = append(span, error);
      file_thread::serve_request();
      return refusal == Refusal::kNone;
    });
  });
  if (refusal == Refusal::kTooLarge) {
    end_recording(
        guard, "the trace is far beyond --max-trace-bytes, and checkpoints do not make it smaller");
  }
  if (refusal == Refusal::kRemoved) end_recording(guard, "somebody has removed the trace");
  if (refusal == Refusal::kCut) end_recording(guard, "somebody has made the trace shorter");
  if (refusal == Refusal::kError) stop_for_file(guard, "the trace file cannot be written", error);
}

void TracePacker::replenish_ring(const CallGuard& guard) noexcept {
  if (session_.ending.load() || session_.ring.replenish()) return;
  stop_for_file(guard, "the ring file cannot grow", session_.ring.growth_error());
}

// Appends the span unless the file has become too large or somebody else has changed it.
TracePacker::Refusal TracePacker::append(const Span& span, int& error) noexcept {
  if (session_.writer.bytes() > most_bytes()) return Refusal::kTooLarge;
  const FileState state = session_.writer.state();
  if (state == FileState::kRemoved) return Refusal::kRemoved;
  if (state == FileState::kCut) return Refusal::kCut;
  error = session_.writer.append(span.writer, span.sequence, span.begin, span.records);
  return error == 0 ? Refusal::kNone : Refusal::kError;
}

// The size of the file at which recording ends. The file may exceed its bound: live memory may need
// more room, and a call that does not return keeps all later records out of checkpoints.
std::uint64_t TracePacker::most_bytes() const noexcept {
  const std::uint64_t bound = session_.config.max_trace_bytes;
  return bound + (bound > kLeastSlackBytes ? bound : kLeastSlackBytes);
}

void TracePacker::stop_for_file(const CallGuard& guard, std::string_view what, int error) noexcept {
  Line reason;
  reason << what << ": " << errno_text(error);
  end_recording(guard, reason.c_str());
}

// The file grows by at least a quarter of its bound between two checkpoints, so that the cost of
// checkpoints for each event stays the same.
void TraceBound::keep(const CallGuard& guard, ServiceRequests* service_requests,
                      void* owner) noexcept {
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
  request.service_requests = service_requests;
  int error = 0;
  if (make_checkpoint(session_.writer, request, error) == CheckpointResult::kFailed) {
    packer_.stop_for_file(guard, "a checkpoint of the trace could not be made", error);
  }
  const std::uint64_t later = session_.writer.bytes() + bound / 4;
  next_checkpoint_bytes_ = later > bound - bound / 8 ? later : bound - bound / 8;
}

// The records of CUPTI's buffers fill the ring faster than calls do, so each buffer is packed
// before the next is read.
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

// Once the process exits, libcupti's destructors may run at any time, so CUPTI is not called again.
void ActivityReader::read_all(const CallGuard& guard) noexcept {
  if (is_over_) return;
  if (session_.is_recording()) cupti::the_collection().flush(true, kCuptiRecorder);
  read(guard);
  if (session_.ring.header().exit_seen.load() == 0) return;
  is_over_ = true;
  end(guard);
}

// Makes buffers that CUPTI completes from now on free again at once, then reads those that it has
// completed before.
void ActivityReader::end(const CallGuard& guard) noexcept {
  cupti::the_collection().set_reading(false);
  read(guard);
}

}  // namespace gpumemtrace::preload
