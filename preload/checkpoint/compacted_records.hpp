// SPDX-License-Identifier: Apache-2.0
// The records of a compaction: the record at hand, the records that stay in the trace, and the
// number of the records that do not.
#pragma once

#include <cstdint>

#include "preload/checkpoint/retained_records.hpp"
#include "preload/checkpoint/retained_samples.hpp"
#include "trace/file_layout.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {

[[nodiscard]] inline bool is_event(trace::RecordKind kind) noexcept {
  return trace::is_call(kind) || kind == trace::RecordKind::kBlock ||
         kind == trace::RecordKind::kFrameworkOom;
}

// has_failed is true if the system had no memory; the compaction's result is worthless then.
struct CompactedRecords {
  // Returns 0 if there is no memory.
  RecordId retain(const trace::RecordHeader& record) noexcept {
    const RecordId id = retained.retain(record);
    has_failed = has_failed || id == 0;
    return id;
  }
  // Drops a retained record and counts it as compacted. `id` 0 means that there is no record.
  void drop(RecordId id) noexcept {
    if (id == 0) return;
    count_compacted(retained.record(id));
    retained.drop(id);
  }
  void count_compacted(const trace::RecordHeader& record) noexcept {
    ++counts.records;
    if (is_event(record.kind)) ++counts.events;
  }
  // Retains the first, the last and the highest sample of each source.
  void retain_sample(const trace::RecordHeader& record, std::uint64_t source,
                     std::uint64_t height = 0) noexcept {
    if (!samples.add(retained, record, source, height)) has_failed = true;
  }
  [[nodiscard]] bool in_checkpoint() const noexcept { return writer == trace::kCheckpointWriter; }

  RetainedRecords retained;
  RetainedSamples samples;
  trace::Checkpoint counts;
  bool has_failed = false;
  // Time and writer of the record that is being compacted:
  std::uint64_t now = 0;  // in model time (trace/order.hpp)
  std::uint64_t ticks = 0;
  std::uint32_t writer = 0;
};

// The source of a sample: a pool, a process or a function on a device.
[[nodiscard]] constexpr std::uint64_t source_of(std::uint64_t source,
                                                std::int32_t device) noexcept {
  return source ^ (std::uint64_t{static_cast<std::uint32_t>(device)} << 48);
}

}  // namespace gpumemtrace::preload
