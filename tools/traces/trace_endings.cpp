// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/trace_endings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "trace/own_descriptor.hpp"
#include "trace/reader.hpp"
#include "trace/ring_layout.hpp"

namespace gpumemtrace::tools {
namespace {

// A process that became other programs has a trace of each; the last one saw its end.
const WrittenTrace* last_trace_of(const std::vector<WrittenTrace>& traces, pid_t process) {
  const WrittenTrace* last = nullptr;
  for (const WrittenTrace& trace : traces) {
    if (trace.process_id != static_cast<std::uint32_t>(process)) continue;
    if (last == nullptr || trace.start_realtime_ns > last->start_realtime_ns) last = &trace;
  }
  return last;
}

}  // namespace

void record_end(const std::vector<WrittenTrace>& traces, const ChildEnd& end) {
  const WrittenTrace* const trace = last_trace_of(traces, end.process_id);
  if (trace == nullptr) return;
  const trace::OwnDescriptor ring(open(ring_of(trace->path).c_str(), O_RDWR | O_CLOEXEC));
  trace::RingHeader header;
  if (!ring.read_at(0, &header, sizeof header) || header.magic != trace::kRingMagic ||
      header.process_id != trace->process_id) {
    return;
  }
  const std::uint32_t ended_by =
      end.signal == 0 ? trace::kEndedByExit : static_cast<std::uint32_t>(end.signal);
  [[maybe_unused]] const ssize_t written = pwrite(ring.number(), &ended_by, sizeof ended_by,
                                                  offsetof(trace::RingHeader, ended_by_signal));
}

void remove_spent_rings(std::vector<WrittenTrace>& traces) {
  for (WrittenTrace& trace : traces) {
    try {
      if (!trace::TraceFile(trace.path).ring_is_spent()) continue;
    } catch (const trace::TraceError&) {
      continue;  // the code that reads it reports the error
    }
    std::error_code ignored;
    std::filesystem::remove(ring_of(trace.path), ignored);
    trace.bytes = bytes_of(trace.path);
  }
}

}  // namespace gpumemtrace::tools
