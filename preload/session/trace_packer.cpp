// SPDX-License-Identifier: Apache-2.0
#include "preload/session/trace_packer.hpp"

#include "preload/base/message.hpp"
#include "preload/ring/packer.hpp"
#include "preload/session/session.hpp"
#include "preload/session/session_state.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kLeastSlackBytes = 256 << 20;

}  // namespace

bool TracePacker::pack_sealed(const CallGuard& guard) noexcept {
  return preload::pack_sealed(session_.ring,
                              [&](const Span& span) noexcept { return append(guard, span); });
}

void TracePacker::pack_active(const CallGuard& guard) noexcept {
  preload::pack_active(session_.ring,
                       [&](const Span& span) noexcept { return append(guard, span); });
}

void TracePacker::replenish_ring(const CallGuard& guard) noexcept {
  if (session_.ending.load() || session_.ring.replenish()) return;
  stop_for_file(guard, "the ring file cannot grow", session_.ring.growth_error());
}

bool TracePacker::append(const CallGuard& guard, const Span& span) noexcept {
  if (session_.writer.bytes() > most_bytes()) {
    disable(guard,
            "the trace is far beyond --max-trace-bytes, and checkpoints do not make it smaller");
    return false;
  }
  const int error = session_.writer.append(span.writer, span.sequence, span.begin, span.records);
  if (error != 0) stop_for_file(guard, "the trace file cannot be written", error);
  return error == 0;
}

// What is live may need more room than the bound, and a call that does not return keeps all that
// came after it out of checkpoints. There is an end to that.
std::uint64_t TracePacker::most_bytes() const noexcept {
  const std::uint64_t bound = session_.config.max_trace_bytes;
  return bound + (bound > kLeastSlackBytes ? bound : kLeastSlackBytes);
}

void TracePacker::stop_for_file(const CallGuard& guard, std::string_view what, int error) noexcept {
  Line reason;
  reason << what << ": " << errno_text(error);
  disable(guard, reason.c_str());
}

}  // namespace gpumemtrace::preload
