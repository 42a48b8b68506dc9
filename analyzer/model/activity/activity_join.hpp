// SPDX-License-Identifier: Apache-2.0
// Finds the intercepted call behind each copy or set that CUPTI reports, and adds the time on the
// GPU to the call's row of Transfers.
//
//   PendingCall         |----- cuMemcpyHtoD -----|            intercepted by the recorder
//   RUNTIME record   |------- cudaMemcpy ----------|          encloses its PendingCalls
//   DRIVER record         |---------------------|             lies in its PendingCall
//   copy record                   (GPU) |=========|           has the API record's correlation
//
// Calls of one thread do not overlap, so the middle of the shorter interval lies in the longer one
// of the same call and in no other. The ends of both tell how far the clocks are off.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "analyzer/model/activity/activity_clocks.hpp"
#include "analyzer/model/activity/kernel_overlap.hpp"
#include "analyzer/model/activity/pending_calls.hpp"
#include "analyzer/model/copies/transfers.hpp"

namespace gpumemtrace::analyzer {

// The key of a CUPTI record: the correlation together with the copy of libcupti that gave it; never
// 0.
constexpr std::uint64_t activity_key(std::uint16_t library, std::uint32_t correlation) {
  return ((std::uint64_t{library} + 1) << 32) | correlation;
}

// The kind of memory behind a value of CUpti_ActivityMemoryKind.
constexpr MemoryClass class_of_activity(std::uint32_t memory_kind) {
  switch (memory_kind) {
    case 1:
      return MemoryClass::kPageable;
    case 2:
      return MemoryClass::kPinned;
    case 3:
    case 6:  // a global variable of a module
      return MemoryClass::kDevice;
    case 4:
      return MemoryClass::kArray;
    case 5:
    case 7:  // a managed global variable
      return MemoryClass::kManaged;
    default:
      return MemoryClass::kUnknown;
  }
}

// The direction of a copy behind a value of CUpti_ActivityMemcpyKind.
constexpr Direction direction_of_activity(std::uint32_t copy_kind) {
  switch (copy_kind) {
    case 1:  // from host memory to device memory
    case 3:  // from host memory to an array
      return Direction::kHostToDevice;
    case 2:
    case 4:
      return Direction::kDeviceToHost;
    case 5:
    case 6:
    case 7:
    case 8:
      return Direction::kDeviceToDevice;
    case 9:
      return Direction::kHostToHost;
    case 10:
      return Direction::kPeer;
    default:
      return Direction::kUnknown;
  }
}

// A copy or a set as the GPU carried it out.
struct DeviceWork {
  std::uint64_t activity = 0;  // activity_key() of library and correlation
  TickSpan time;
  std::uint64_t bytes = 0;
  std::uint64_t graph_node = 0;
  std::int32_t device = kUnknownDevice;
  std::uint8_t copy_kind = 0;  // this and the next two: values of CUPTI's enumerations
  std::uint8_t source_kind = 0;
  std::uint8_t destination_kind = 0;
  bool is_set = false;
};

struct JoinCounts {
  std::uint64_t calls = 0;        // calls intercepted while CUPTI's records were taken
  std::uint64_t api_records = 0;  // CUPTI's records of calls
  std::uint64_t exact = 0;        // copies and sets that were joined for certain
  std::uint64_t inferred = 0;
  std::array<std::uint64_t, kUnjoinedReasons> unjoined{};
  // copies for which CUPTI names another kind of memory than the trace has at their addresses
  std::uint64_t kind_disagreements = 0;
  std::uint64_t largest_violation_ticks = 0;

  [[nodiscard]] std::uint64_t all_unjoined() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : unjoined) sum += count;
    return sum;
  }
};

// - Calls and CUPTI's records come in the order of the merged trace: a record when the recorder got
//   it, up to seconds after its call.
// - JoinCounts::exact: the intervals contain each other to within the clocks' error, and leave no
//   choice. JoinCounts::inferred: any other join. Without API records (CUPTI before 12.5, or loaded
//   after the context was made) the oldest call of the same size is taken, in the order of
//   correlations, which CUPTI hands out one by one to the calls as they are made.
// - The number of waiting records is bounded; if there are too many, the oldest counts as unjoined.
class ActivityJoin {
 public:
  static constexpr std::size_t kMaxWaiting = std::size_t{1} << 18;
  // If CUPTI has reported no call when so many copies and sets wait, it is taken to report none.
  static constexpr std::size_t kEnoughWithoutApi = 4096;

  ActivityJoin(Transfers& transfers, KernelOverlap& overlap, const ActivityClocks& clocks)
      : transfers_(transfers), overlap_(overlap), clocks_(clocks) {}

  void add_thread(std::uint32_t writer, const trace::Thread& thread) {
    calls_.add_thread(writer, thread);
  }
  struct CallSize {
    std::uint64_t bytes = 0;
    std::uint32_t part = 0;  // index of the part in a batch
  };
  // `counted`: the call's row of Transfers, or PendingCall::kNothing.
  void add_call(std::uint32_t writer, const trace::CallHeader& call, CallWork work,
                const CallSize& size, std::uint32_t counted);
  void add_launch(std::uint32_t writer, const trace::CallHeader& call, const CallSite& site);

  void apply(const trace::ActivityCall& record);
  void apply(const DeviceWork& work);
  void count_unjoined(Unjoined reason) { ++counts_.unjoined[static_cast<std::size_t>(reason)]; }
  // Sets the time of a checkpoint, which has replaced the calls that began before.
  void set_cut(std::uint64_t ticks) { cut_ticks_ = ticks; }
  // Called if CUPTI reports no calls: copies and sets are joined to calls by size.
  void expect_no_api_records();
  // Called after the last record: joins the copies and sets that still wait, or counts them as
  // unjoined.
  void finish();

  [[nodiscard]] const JoinCounts& counts() const { return counts_; }

 private:
  struct Match {
    std::vector<CallId> calls;
    bool is_inferred = false;
    bool is_other_library = false;
    bool is_early = false;  // all known calls of the thread ended before the record's time
    bool is_forgotten = false;
    std::uint64_t violation = 0;

    void restart() {
      calls.clear();
      is_inferred = is_other_library = is_early = is_forgotten = false;
      violation = 0;
    }
  };
  struct Batch {
    CallId first = 0;
    CallId last = 0;
  };
  // A call as CUPTI reported it.
  struct ApiSpan {
    std::uint64_t activity = 0;
    TickSpan time;
    std::uint32_t thread_id = 0;
    trace::ActivityDomain domain = trace::ActivityDomain::kDriver;
  };

  [[nodiscard]] Batch& batch_of(std::uint32_t writer);
  [[nodiscard]] bool match(const ApiSpan& api, bool is_last_chance);
  [[nodiscard]] bool match_in(const PendingCalls::Thread& thread, const ApiSpan& api, Match& match);
  // True if no record has taken the call yet. Sets match.is_other_library if a record of another
  // copy of libcupti has.
  [[nodiscard]] bool is_free(PendingCall& call, const ApiSpan& api, Match& match);
  void take(const ApiSpan& api, const Match& match);
  void remember(std::uint64_t activity, CallId first, Unjoined reason);
  void join_waiting(std::uint64_t activity, const ApiCall& api);
  void join(const DeviceWork& work, const ApiCall& api);
  [[nodiscard]] PendingCall* next_part(const PendingCall& call) { return calls_.find(call.next); }
  PendingCall* part_for(const DeviceWork& work, PendingCall& first);
  [[nodiscard]] std::uint64_t bytes_of_parts(const PendingCall& first);
  [[nodiscard]] bool spread_over_batch(const DeviceWork& work, PendingCall& first);
  void attach(const DeviceWork& work, PendingCall& call);
  [[nodiscard]] std::uint32_t row_in_graph(const DeviceWork& work, const PendingCall& launch);
  void compare_kinds(const DeviceWork& work, const TransferKey& key);
  void wait(const DeviceWork& work);
  void index_by_size(CallId id, const PendingCall& call);
  // Joins the work to the oldest call of its size that no record has taken yet.
  void infer(const DeviceWork& work);
  void infer_all();
  void infer_waiting();

  Transfers& transfers_;
  KernelOverlap& overlap_;
  const ActivityClocks& clocks_;
  PendingCalls calls_;
  ApiCalls api_calls_;
  // used by match() alone; a member so that its memory is used again
  Match match_;
  // copies and sets that wait for CUPTI's record of their call, by activity_key()
  std::unordered_map<std::uint64_t, std::vector<DeviceWork>> waiting_;
  std::deque<std::uint64_t> waiting_order_;
  std::deque<ApiSpan> early_;
  bool without_api_records_ = false;
  std::unordered_map<std::uint64_t, std::deque<CallId>> by_size_;
  std::vector<DeviceWork> without_api_;               // copies and sets to join by size
  std::unordered_map<std::uint32_t, Batch> batches_;  // the latest batch of each writer
  std::uint32_t latest_writer_ = 0;
  Batch* latest_batch_ = nullptr;  // the batch of latest_writer_
  std::vector<CallSite> launch_sites_;
  std::map<CallSite, std::uint32_t> launch_site_index_;
  std::uint64_t cut_ticks_ = 0;
  JoinCounts counts_;
};

}  // namespace gpumemtrace::analyzer
