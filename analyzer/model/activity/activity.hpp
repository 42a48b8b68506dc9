// SPDX-License-Identifier: Apache-2.0
// The model of CUPTI's records about one process.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "analyzer/model/activity/activity_clocks.hpp"
#include "analyzer/model/activity/activity_join.hpp"
#include "analyzer/model/activity/kernel_overlap.hpp"
#include "analyzer/model/activity/managed_traffic.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

[[nodiscard]] constexpr bool is_collecting(trace::ActivityMode mode) {
  return mode == trace::ActivityMode::kCopies || mode == trace::ActivityMode::kFull;
}

struct StreamKey {
  std::int32_t device = kUnknownDevice;
  std::uint32_t context = 0;  // `context` and `stream` are CUPTI's ids
  std::uint32_t stream = 0;
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

struct StreamCopies {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t gpu_ticks = 0;
};

// A stream-ordered memory pool as CUPTI reported it.
struct PoolActivity {
  std::int32_t device = kUnknownDevice;
  std::uint64_t records = 0;
  std::uint64_t reserved_peak_bytes = 0;
  std::uint64_t used_peak_bytes = 0;
};

// The state of the collection of CUPTI's records, from the last record about it.
struct ActivityStatus {
  bool is_known = false;
  trace::ActivityMode mode = trace::ActivityMode::kOff;
  bool is_shared = false;  // the program uses CUPTI, too
  std::uint32_t version = 0;
  std::string reason;
  trace::ActivityMode widest_mode = trace::ActivityMode::kOff;  // the widest mode ever set
};

// Takes CUPTI's records in the order in which the analyzer merges the threads' records. Does
// nothing in traces without CUPTI's records.
class Activity {
 public:
  // `widest_mode`: the mode as far as it is known before the first record. The recorder writes its
  // mode up to a second after it has begun to collect.
  Activity(Transfers& transfers, ActivityClocks clocks, trace::ActivityMode widest_mode)
      : clocks_(std::move(clocks)), overlap_(transfers), join_(transfers, overlap_, clocks_) {
    status_.widest_mode = widest_mode;
  }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // True if intercepted calls have to be kept, because records about them may come.
  [[nodiscard]] bool is_on() const {
    return !clocks_.empty() || status_.is_known || status_.widest_mode != trace::ActivityMode::kOff;
  }
  [[nodiscard]] ActivityJoin& join() { return join_; }
  [[nodiscard]] ManagedTraffic& managed() { return managed_; }
  [[nodiscard]] const ManagedTraffic& managed() const { return managed_; }

  void apply(const trace::ActivityCall& record) { join_.apply(record); }
  void apply(const trace::ActivityCopy& record);
  void apply(const trace::ActivitySet& record);
  void apply(const trace::ActivityKernel& record);
  void apply(const trace::ActivityManaged& record);
  void apply(const trace::ActivityPool& record);
  void apply(const trace::ActivityClock& record) { clocks_.add(record); }
  void apply(const trace::ActivityState& record);
  void apply(const trace::ActivityDropped& record) {
    dropped_.by_cupti += record.by_cupti;
    dropped_.by_recorder += record.by_recorder;
  }
  // Takes a checkpoint, which has replaced the calls before it and CUPTI's records about those
  // calls.
  void apply_checkpoint(const trace::Checkpoint& checkpoint) {
    compacted_records_ += checkpoint.activity_records;
    join_.set_cut(checkpoint.record.time);
  }
  void finish();

  [[nodiscard]] const ActivityStatus& status() const { return status_; }
  [[nodiscard]] const ActivityClocks& clocks() const { return clocks_; }
  [[nodiscard]] const JoinCounts& counts() const { return join_.counts(); }
  [[nodiscard]] const std::map<StreamKey, StreamCopies>& streams() const { return streams_; }
  [[nodiscard]] const std::map<std::uint64_t, PoolActivity>& pools() const { return pools_; }
  [[nodiscard]] const trace::ActivityDropped& dropped() const { return dropped_; }
  [[nodiscard]] std::uint64_t compacted_records() const { return compacted_records_; }
  [[nodiscard]] bool has_kernels() const { return overlap_.has_kernels(); }

 private:
  [[nodiscard]] static Unjoined why_without_time(std::uint64_t start);
  [[nodiscard]] StreamCopies& stream_of(const StreamKey& key) {
    if (latest_copies_ == nullptr || latest_stream_ != key) {
      latest_stream_ = key;
      latest_copies_ = &streams_[key];
    }
    return *latest_copies_;
  }

  ActivityClocks clocks_;
  KernelOverlap overlap_;
  ActivityJoin join_;
  ManagedTraffic managed_;
  std::map<std::uint64_t, PoolActivity> pools_;  // pools by handle
  ActivityStatus status_;
  std::map<StreamKey, StreamCopies> streams_;
  StreamKey latest_stream_;
  StreamCopies* latest_copies_ = nullptr;  // the copies of latest_stream_
  trace::ActivityDropped dropped_;
  std::uint64_t compacted_records_ = 0;
};

}  // namespace gpumemtrace::analyzer
