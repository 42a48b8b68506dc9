// SPDX-License-Identifier: Apache-2.0
#include "analyzer/job/preview.hpp"

#include <algorithm>

#include "analyzer/model/activity/activity.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Writers with more records than this are threads of the program, which make no clock records.
constexpr std::uint64_t kMaxPreviewRecords = 50'000;

}  // namespace

std::uint64_t record_count(const trace::WriterStream& stream) {
  std::uint64_t sum = 0;
  for (const trace::ChunkPiece& piece : stream.pieces) sum += piece.records;
  return sum;
}

bool PreviewReader::read(const trace::TraceFile& file) {
  return std::all_of(file.writers().begin(), file.writers().end(),
                     [&](const trace::WriterStream& writer) { return read(file, writer); });
}

bool PreviewReader::read(const trace::TraceFile& file, const trace::WriterStream& writer) {
  Stream& stream = streams_[writer.writer];
  const bool is_new = !stream.has_begun;
  trace::WriterCursor cursor = is_new ? trace::WriterCursor(file, writer)
                                      : trace::WriterCursor(file, writer, stream.position);
  if (!cursor.found()) return false;
  if (is_new) {
    // The recorder's own writer begins with a clock record.
    const trace::RecordHeader* first = cursor.next();
    if (first == nullptr) return true;
    stream.has_begun = true;
    stream.is_recorders = writer.writer == 0 || writer.writer == trace::kCheckpointWriter ||
                          first->kind == trace::RecordKind::kClock;
    take(*first, stream);
    stream.position = cursor.position();
  }
  if (!stream.is_recorders && record_count(writer) > kMaxPreviewRecords) return true;
  cursor.look_for({trace::RecordKind::kWaitingStack, trace::RecordKind::kDevice,
                   trace::RecordKind::kActivityClock, trace::RecordKind::kActivityState,
                   trace::RecordKind::kText, trace::RecordKind::kClock});
  while (const trace::RecordHeader* record = cursor.next()) take(*record, stream);
  stream.position = cursor.position();
  return true;
}

void PreviewReader::take(const trace::RecordHeader& record, const Stream& stream) {
  switch (record.kind) {
    case trace::RecordKind::kWaitingStack:
      // Threads of the program sample before they record a block for which that matters.
      if (stream.is_recorders) preview_.waits.push_back(trace::as<trace::WaitingStack>(record));
      return;
    case trace::RecordKind::kDevice:
      return preview_.devices.push_back(trace::as<trace::Device>(record));
    case trace::RecordKind::kActivityClock:
      return preview_.activity_clocks.push_back(trace::as<trace::ActivityClock>(record));
    case trace::RecordKind::kActivityState: {
      const trace::ActivityMode mode = trace::as<trace::ActivityState>(record).mode;
      if (is_collecting(mode)) {
        preview_.widest_activity = std::max(preview_.widest_activity, mode);
      }
      return;
    }
    case trace::RecordKind::kText:
      return dictionary_.add(record);
    case trace::RecordKind::kClock: {
      const auto& clock = trace::as<trace::Clock>(record);
      points_.push_back(
          {record.time, clock.monotonic_ns, clock.realtime_ns, clock.uncertainty_ticks});
      preview_.background_cpu_ns = std::max(preview_.background_cpu_ns, clock.background_cpu_ns);
      return;
    }
    default:
      return;
  }
}

Preview PreviewReader::preview(const trace::TraceFile& file) const {
  Preview preview = preview_;
  preview.clock = Clock(points_, file.header().ticks_per_second);
  preview.host = dictionary_.text(trace::TextKey::kHost);
  preview.boot_id = dictionary_.text(trace::TextKey::kBootId);
  return preview;
}

}  // namespace gpumemtrace::analyzer
