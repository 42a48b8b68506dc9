// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/activity/activity.hpp"

#include <algorithm>
#include <string_view>

#include "analyzer/model/activity/activity_join.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The version that cuptiGetVersion() returns in CUDA 12.5, whose CUPTI is the first to report calls
// of single functions.
constexpr std::uint32_t kFirstVersionWithCalls = 23;

// Fills in the fields that records about a copy and records about a memory set share.
template <class Record>
DeviceWork work_of(const Record& record, const TickSpan& time) {
  DeviceWork work;
  work.activity = activity_key(record.library, record.correlation);
  work.time.start = time.start;
  work.time.end = time.end;
  work.bytes = record.bytes;
  work.graph_node = record.graph_node;
  work.device = record.device;
  return work;
}

}  // namespace

void Activity::finish() {
  join_.finish();
  overlap_.finish();
  managed_.finish();
}

void Activity::apply(const trace::ActivityState& record) {
  const std::string_view reason = trace::tail_of(record.record);
  // A record without a reason, such as that the program now uses CUPTI, too, does not erase the
  // reason that an earlier record gave for the same mode.
  if (!reason.empty() || !status_.is_known || record.mode != status_.mode) status_.reason = reason;
  status_.is_known = true;
  status_.mode = record.mode;
  status_.is_shared = status_.is_shared || record.is_shared != 0;
  if (record.version != 0) status_.version = record.version;
  if (is_collecting(record.mode)) {
    status_.widest_mode = std::max(status_.widest_mode, record.mode);
  }
  if (record.version != 0 && record.version < kFirstVersionWithCalls) {
    join_.expect_no_api_records();
  }
}

Unjoined Activity::why_without_time(std::uint64_t start) {
  return start == 0 ? Unjoined::kNoTime : Unjoined::kClockUnknown;
}

void Activity::apply(const trace::ActivityCopy& record) {
  StreamCopies& stream = stream_of({record.device, record.context, record.stream});
  ++stream.count;
  stream.bytes += record.bytes;
  const auto time =
      clocks_.convert_to_ticks(record.library, record.start, record.end, record.record.time);
  if (!time) return join_.count_unjoined(why_without_time(record.start));
  stream.gpu_ticks += time->ticks();
  DeviceWork work = work_of(record, *time);
  work.copy_kind = record.copy_kind;
  work.source_kind = record.source_kind;
  work.destination_kind = record.destination_kind;
  join_.apply(work);
}

void Activity::apply(const trace::ActivitySet& record) {
  const auto time =
      clocks_.convert_to_ticks(record.library, record.start, record.end, record.record.time);
  if (!time) return join_.count_unjoined(why_without_time(record.start));
  DeviceWork work = work_of(record, *time);
  work.destination_kind = static_cast<std::uint8_t>(record.memory_kind);
  work.is_set = true;
  join_.apply(work);
}

void Activity::apply(const trace::ActivityKernel& record) {
  const auto time = clocks_.convert_to_ticks(static_cast<std::uint16_t>(record.library),
                                             record.start, record.end, record.record.time);
  if (time) overlap_.add_kernel(record.device, *time);
}

void Activity::apply(const trace::ActivityManaged& record) {
  // Records about page faults have no end time.
  managed_.apply(record,
                 clocks_.convert_to_ticks(static_cast<std::uint16_t>(record.library), record.start,
                                          std::max(record.start, record.end), record.record.time));
}

void Activity::apply(const trace::ActivityPool& record) {
  if (record.pool == 0) return;
  PoolActivity& pool = pools_[record.pool];
  pool.device = record.device;
  ++pool.records;
  pool.reserved_peak_bytes = std::max(pool.reserved_peak_bytes, record.reserved_bytes);
  pool.used_peak_bytes = std::max(pool.used_peak_bytes, record.used_bytes);
}

}  // namespace gpumemtrace::analyzer
