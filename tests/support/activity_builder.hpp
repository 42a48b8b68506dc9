// SPDX-License-Identifier: Apache-2.0
// Adds CUPTI's records to a trace that TraceBuilder writes. Callers give times in ticks of the
// trace, as everywhere; the records hold them on CUPTI's clock.
#pragma once

#include <cstdint>
#include <string_view>

#include "tests/support/trace_builder.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::tests {

// Values of CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind, as far as tests need them.
inline constexpr std::uint8_t kCopyHostToDevice = 1;
inline constexpr std::uint8_t kCopyDeviceToHost = 2;
inline constexpr std::uint8_t kCopyDeviceToDevice = 8;
inline constexpr std::uint8_t kPageableKind = 1;
inline constexpr std::uint8_t kPinnedKind = 2;
inline constexpr std::uint8_t kDeviceKind = 3;

struct Interval {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

// The fields of a copy record beside its times and size.
struct CopyRecord {
  std::uint32_t correlation = 0;
  std::uint8_t copy_kind = kCopyHostToDevice;
  std::uint8_t source_kind = kPageableKind;
  std::uint8_t destination_kind = kDeviceKind;
  std::uint32_t stream = 7;
  std::int32_t device = 0;
  std::uint64_t graph_node = 0;
  std::uint16_t library = 0;
  std::uint64_t taken_over = 0;  // 0 = after all earlier records
};

class ActivityBuilder {
 public:
  static constexpr std::uint32_t kWriter = 90;  // the thread of CUPTI itself

  // CUPTI's clock shows `at_tick_0` at tick 0 and advances by `units_per_tick` with each tick.
  explicit ActivityBuilder(TraceBuilder& trace,
                           std::uint64_t at_tick_0 = TraceBuilder::kStartRealtimeNs,
                           std::uint64_t units_per_tick = 1)
      : trace_(trace), at_tick_0_(at_tick_0), units_per_tick_(units_per_tick) {}

  // From here on CUPTI has another clock, which is an epoch of its own.
  void exchange_clock(std::uint64_t at_tick_0, std::uint64_t units_per_tick) {
    at_tick_0_ = at_tick_0;
    units_per_tick_ = units_per_tick;
    ++epoch_;
  }
  [[nodiscard]] std::uint64_t shown(std::uint64_t ticks) const {
    return at_tick_0_ + ticks * units_per_tick_;
  }

  void state(trace::ActivityMode mode, std::uint32_t version = 130001, std::string_view reason = {},
             std::uint16_t is_shared = 0) {
    trace::ActivityState record;
    record.mode = mode;
    record.version = version;
    record.is_shared = is_shared;
    trace_.add(record, 0, reason);
  }
  // Adds a reading of CUPTI's clock beside the ticks, as exact as `uncertainty` says.
  void clock(std::uint64_t ticks, std::uint64_t uncertainty = 0, std::uint16_t library = 0) {
    trace::ActivityClock record;
    record.record.time = ticks - uncertainty / 2;
    record.timestamp = shown(ticks);
    record.uncertainty_ticks = uncertainty;
    record.epoch = epoch_;
    record.library = library;
    trace_.add(record, 0);
  }
  void thread(std::uint32_t writer, std::uint64_t thread_id, std::uint64_t pthread_self = 0) {
    trace::Thread record;
    record.thread_id = thread_id;
    record.pthread_self = pthread_self;
    trace_.add(record, writer, "worker");
  }
  void call(trace::ActivityDomain domain, std::uint32_t correlation, std::uint32_t thread_id,
            Interval time, std::uint64_t taken_over = 0, std::uint16_t library = 0) {
    trace::ActivityCall record;
    record.record.time = taken_over;
    record.start = shown(time.start);
    record.end = shown(time.end);
    record.correlation = correlation;
    record.thread_id = thread_id;
    record.domain = domain;
    record.library = library;
    trace_.add(record, kWriter);
  }
  void copy(std::uint64_t bytes, Interval time, const CopyRecord& more) {
    trace::ActivityCopy record;
    record.record.time = more.taken_over;
    record.start = shown(time.start);
    record.end = shown(time.end);
    record.bytes = bytes;
    record.correlation = more.correlation;
    record.copy_kind = more.copy_kind;
    record.source_kind = more.source_kind;
    record.destination_kind = more.destination_kind;
    record.stream = more.stream;
    record.device = more.device;
    record.graph_node = more.graph_node;
    record.library = more.library;
    trace_.add(record, kWriter);
  }
  void set(std::uint64_t bytes, Interval time, std::uint32_t correlation,
           std::uint64_t graph_node = 0) {
    trace::ActivitySet record;
    record.start = shown(time.start);
    record.end = shown(time.end);
    record.bytes = bytes;
    record.correlation = correlation;
    record.device = 0;
    record.memory_kind = kDeviceKind;
    record.graph_node = graph_node;
    trace_.add(record, kWriter);
  }
  void kernel(Interval time, std::int32_t device = 0) {
    trace::ActivityKernel record;
    record.start = shown(time.start);
    record.end = shown(time.end);
    record.device = device;
    trace_.add(record, kWriter);
  }

 private:
  TraceBuilder& trace_;
  std::uint64_t at_tick_0_;
  std::uint64_t units_per_tick_;
  std::uint32_t epoch_ = 0;
};

}  // namespace gpumemtrace::tests
