// SPDX-License-Identifier: Apache-2.0
// Compacts the oldest records of a trace into a checkpoint: the memory that is still live, the
// holders of the peaks, and totals of the rest. Knows no file; preload/checkpoint/checkpoint.cpp
// feeds it. The ledger (trace/ledger/) knows the effect of records on memory, as for the analyzer.
//
//   add(record) in the order in which records took effect  ->  write(): the checkpoint's records
//
// A record that may still matter is retained as it is: retaining too much is always right. A
// checkpoint's own records are compacted like others, so checkpoints do not pile up.
#pragma once

#include <array>
#include <cstdint>

#include "preload/checkpoint/group_sums.hpp"
#include "preload/checkpoint/retained_records.hpp"
#include "preload/checkpoint/retained_samples.hpp"
#include "preload/checkpoint/retained_tensors.hpp"
#include "trace/ledger/contexts.hpp"
#include "trace/ledger/copy_locations.hpp"
#include "trace/ledger/driver_rounding.hpp"
#include "trace/ledger/driver_use.hpp"
#include "trace/ledger/live_memory.hpp"
#include "trace/ledger/pools.hpp"
#include "trace/ledger/refused_frees.hpp"
#include "trace/ledger/targets.hpp"
#include "trace/ledger/virtual_memory.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

// Takes the records of a checkpoint, one after the other; false ends the writing.
struct RecordSink {
  void* owner = nullptr;
  bool (*take)(void* owner, const trace::RecordHeader& record) = nullptr;
};

// - One thread. Memory grows with live allocations and with the number of call sites.
// - failed() if the system has no memory: the result is worthless then.
class Compaction {
 public:
  // The record took effect at `ticks`; records come in the order of trace/order.hpp. Its words may
  // not change while add() runs.
  void add(const trace::RecordHeader& record, std::uint32_t writer, std::uint64_t ticks) noexcept;
  // True if the record hands out an address that is live. Before it is compacted, the caller must
  // see whether the missing free comes within the reorder window.
  [[nodiscard]] bool is_conflict(const trace::RecordHeader& record) noexcept;
  // The checkpoint's records. All records that follow it in the trace took effect after
  // `cut_ticks`.
  [[nodiscard]] bool write(std::uint64_t cut_ticks, const RecordSink& sink) noexcept;

  [[nodiscard]] bool failed() const noexcept {
    return failed_ || sums_.failed() || copy_locations_.failed() || pools_.failed() ||
           contexts_.failed() || virtual_memory_.failed() || refused_frees_.failed() ||
           rounding_.failed() || driver_use_.failed();
  }

 private:
  struct Live {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t born_time = 0;  // model time
    std::uint32_t group = 0;
    std::uint32_t pool = 0;  // index; for stream-ordered memory
    RecordId record = 0;
  };
  // Physical memory, by its handle, or a mapping of it.
  struct LiveMapped {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t born_time = 0;  // model time
    std::uint32_t group = kNoIndex32;
    std::int32_t device = ledger::kUnknownDevice;
    RecordId record = 0;    // the record that created it, or mapped it
    RecordId released = 0;  // the free that dropped the last reference, while mappings remain
    bool stays = false;     // its records stay in the trace: imported, or retained
  };
  struct SegmentTag {
    RecordId record = 0;  // the record of the reservation
    bool has_blocks = false;
    std::int32_t device = ledger::kUnknownDevice;  // the segment's device

    [[nodiscard]] bool is_segment() const { return has_blocks; }
  };
  // An allocation with its free, as the sums count them.
  struct Pair {
    std::uint64_t bytes = 0;
    std::uint64_t host_ticks = 0;
    std::uint64_t born_time = 0;
  };
  // An allocation whose address was handed out again before its free was seen.
  struct Shadow {
    std::uint64_t address = 0;
    std::uint64_t deadline_ticks = 0;
    std::uint32_t writer = 0;  // the newer allocation's writer
    std::uint32_t group = 0;
    Pair pair;
  };
  // An executable graph.
  struct LiveGraph {
    std::uint64_t handle = 0;
    std::uint32_t group = 0;
    RecordId record = 0;  // the record that instantiated it
  };
  // The executable graphs of a device, and the most that were alive at once.
  struct GraphCount {
    std::int32_t device = ledger::kUnknownDevice;
    std::uint64_t live = 0;
    std::uint64_t most_live = 0;
  };
  // The group of the stack's last block.
  struct BlockGroup {
    trace::StackId stack = trace::StackId::kNone;
    std::int32_t device = ledger::kUnknownDevice;
    std::uint32_t group = kNoIndex32;
  };
  struct SeenThread {
    std::uint64_t key = 0;  // its writer and its number plus 1
    std::uint32_t writer = 0;
    std::uint64_t thread_id = 0;
  };
  // The last recorded stack of a thread that waits.
  struct Wait {
    std::uint64_t thread_id = 0;
    std::uint32_t writer = 0;  // the thread's own writer; 0 = not known
    trace::StackId stack = trace::StackId::kNone;
  };
  class Output;
  class MappingOwner;

  using Memory = ledger::LiveMemory<Live, MappedArray>;
  using Blocks = ledger::FlatMap<Live, &Live::address, MappedArray>;
  using VirtualMemory = ledger::VirtualMemory<LiveMapped, SegmentTag>;

  // --- compaction.cpp: records that are only counted or retained
  RecordId retain(const trace::RecordHeader& record) noexcept;
  void drop(RecordId id) noexcept;
  void count_gone(const trace::RecordHeader& record) noexcept;
  void retain_sample(const trace::RecordHeader& record, std::uint64_t source,
                     std::uint64_t height = 0) noexcept;
  template <class Record>
  void apply(const Record& record) noexcept {
    retain(reinterpret_cast<const trace::RecordHeader&>(record));
  }
  void apply(const trace::Range& call) noexcept { count_gone(call.call.record); }
  void apply(const trace::OtherCall& call) noexcept;
  void apply(const trace::ApiName& name) noexcept;
  // Replay ends at a checkpoint, so it needs none of these.
  void apply(const trace::AllocatorSetting& setting) noexcept { count_gone(setting.record); }
  void apply(const trace::BlockWait& wait) noexcept { count_gone(wait.record); }
  void apply(const trace::Clock& clock) noexcept { retain_sample(clock.record, 0); }
  void apply(const trace::ActivityClock& clock) noexcept {
    retain_sample(clock.record, (std::uint64_t{clock.library} << 32) | clock.epoch);
  }
  void apply(const trace::Thread& thread) noexcept;
  void apply(const trace::ActivityDropped& dropped) noexcept;
  void apply(const trace::Gap& gap) noexcept;
  void apply(const trace::Mark& mark) noexcept;
  void apply(const trace::Name& name) noexcept;
  void apply(const trace::Context& context) noexcept;
  void apply(const trace::Annotation& annotation) noexcept;
  void apply(const trace::WaitingStack& wait) noexcept;
  // The thread of the present record no longer waits.
  void end_wait() noexcept;
  void apply(const trace::Tensor& tensor) noexcept;
  void apply(const trace::Copy& call) noexcept;
  void apply(const trace::Set& call) noexcept;
  trace::Totals transfer_like(const trace::CallHeader& call) const noexcept;
  ledger::Location locate(std::uint64_t address, trace::EndType said,
                          const trace::CallHeader& call) const noexcept;
  void add_transfer(const trace::CallHeader& call, const trace::Totals& like, std::uint64_t bytes,
                    bool has_time) noexcept;
  void apply(const trace::Graph& call) noexcept;
  void instantiate(const trace::Graph& call) noexcept;
  void destroy_executable(const trace::Graph& call) noexcept;
  void end_graph(const LiveGraph& graph) noexcept;
  GraphCount* graph_count(std::int32_t device) noexcept;
  void apply(const trace::Import& call) noexcept;
  void apply(const trace::MemorySample& sample) noexcept;
  void apply(const trace::ProcessSample& sample) noexcept;
  void apply(const trace::ContextLimits& limits) noexcept;
  void apply(const trace::Device& device) noexcept;
  void add_driver_cause(std::int32_t device, ledger::DriverCause cause,
                        const trace::CallHeader& call) noexcept;

  // --- compaction_memory.cpp: allocations, frees, blocks, contexts
  void apply(const trace::Allocation& call) noexcept;
  void apply(const trace::Free& call) noexcept;
  void refuse(const trace::Free& call) noexcept;
  void take_back(const trace::Free& call) noexcept;
  void apply(const trace::Block& block) noexcept;
  void replace_block(const trace::Block& block) noexcept;
  std::uint32_t group_of(const trace::Block& block) noexcept;
  void apply(const trace::ContextCall& call) noexcept;
  [[nodiscard]] bool end_context(const trace::ContextCall& call) noexcept;
  void add_context_cause(const trace::ContextCall& call) noexcept;
  std::uint32_t group_of(const trace::Totals& like, const ledger::Target& target) noexcept;
  std::uint32_t bind(std::uint32_t group, const ledger::Target& target) noexcept;
  void begin(const Live& live) noexcept;
  void make_room(Memory::Space space, std::uint64_t address) noexcept;
  void give_up(const Shadow& shadow) noexcept;
  [[nodiscard]] bool end_shadow(const trace::Free& call) noexcept;
  // Takes the allocation out of the sums; its record stays.
  void end_sums(const Live& live) noexcept;
  // `freed_by`: the call, if it is known. `is_freed`: false if the free was not seen.
  void count_pair(std::uint32_t group, const Pair& pair, bool is_freed,
                  const trace::CallHeader* freed_by) noexcept;
  Pair pair_of(const Live& live) noexcept;
  void mark_segment(std::uint64_t address) noexcept;
  // The group's memory turns out to be a segment of the framework. Returns the group to count it
  // in.
  std::uint32_t move_to_segments(std::uint32_t group, const LiveBytes& live) noexcept;

  // --- compaction_mapping.cpp: virtual memory and pools
  void create_physical(const trace::Allocation& call, std::uint32_t group) noexcept;
  void release_physical(const trace::Free& call) noexcept;
  void apply(const trace::Mapping& call) noexcept;
  void map(const trace::Mapping& call) noexcept;
  void unmap(const trace::Mapping& call) noexcept;
  void import_handle(const trace::Mapping& call) noexcept;
  void free_reservation(const trace::Mapping& call) noexcept;
  void mark_reservation(VirtualMemory::Reservation& reservation, std::int32_t device) noexcept;
  // The framework's segments on the device became larger or smaller.
  void grow_segments(std::int32_t device, const LiveBytes& live) noexcept;
  void shrink_segments(std::int32_t device, std::uint64_t bytes) noexcept;
  static constexpr std::uint64_t source_of(std::uint64_t pool, std::int32_t device) noexcept {
    return pool ^ (std::uint64_t{static_cast<std::uint32_t>(device)} << 48);
  }
  void apply(const trace::Pool& call) noexcept;
  void apply(const trace::PoolSample& sample) noexcept;
  void physical_changed(std::int32_t device) noexcept {
    sums_.physical_changed(device, rounding_.bytes(device), pools_.sums_of(device), now_);
  }
  OwnCurves* curves(std::int32_t device) noexcept {
    return sums_.curves(device, pools_.sums_of(device), now_);
  }
  std::uint64_t physical_bytes(const Physical& device) const noexcept {
    return sums_.driver_bytes(device) + pools_.sums_of(device.device).reserved_bytes;
  }

  // --- compaction_result.cpp: earlier checkpoints, and the new one
  void apply(const trace::Totals& totals) noexcept;
  void apply(const trace::RecentFree& recent) noexcept;
  void apply(const trace::RefusedFree& refused) noexcept { refused_frees_.add(refused); }
  void apply(const trace::Peak& peak) noexcept;
  void apply(const trace::PeakHolder& holder) noexcept;
  void apply(const trace::CardState& state) noexcept;
  void apply(const trace::CardCurve& curve) noexcept;
  void apply(const trace::CardPoint& point) noexcept;
  void apply(const trace::DriverTaken& taken) noexcept { driver_use_.restore(taken); }
  void apply(const trace::DriverShare& share) noexcept { driver_use_.restore(share); }
  void apply(const trace::ContextTaken& taken) noexcept { driver_use_.restore(taken); }
  void apply(const trace::Checkpoint& checkpoint) noexcept;
  void write_totals(Output& out) noexcept;
  void write_account_peaks(Output& out) noexcept;
  void write_row_peaks(Output& out) noexcept;
  void write_physical_peaks(Output& out) noexcept;
  void write_curves(Output& out) noexcept;
  // `moment`: the number of its share.
  void write_holders(std::uint32_t account, const PeakSnapshot& peak, std::size_t moment,
                     Output& out) noexcept;

  GroupSums sums_;
  RetainedRecords retained_;
  RetainedSamples samples_;
  RetainedTensors tensors_;
  Memory memory_;
  Blocks blocks_;
  VirtualMemory virtual_memory_;
  ledger::DriverRounding rounding_;
  ledger::Pools pools_;
  ledger::DriverUse driver_use_;
  MappedArray<std::uint16_t> loading_apis_;  // of functions that load code
  ledger::CopyLocations copy_locations_;
  ledger::Contexts contexts_;
  ledger::FlatMap<SeenThread, &SeenThread::key, MappedArray> threads_;
  MappedArray<Wait> waits_;  // of threads that still wait
  MappedArray<Shadow> shadows_;
  ledger::RefusedFrees refused_frees_;
  ledger::FlatMap<LiveGraph, &LiveGraph::handle, MappedArray> executables_;
  MappedArray<GraphCount> graph_counts_;

  std::uint64_t now_ = 0;    // model time (trace/order.hpp)
  std::uint64_t ticks_ = 0;  // the present record's
  std::uint32_t writer_ = 0;
  RecordId open_capture_ = 0;
  RecordId gap_ = 0;
  RecordId dropped_ = 0;
  RecordId leaks_mark_ = 0;                 // the last mark from which leaks count
  std::uint32_t leaks_mark_name_ = 0;       // the number of its name; 0 = not known yet
  std::uint32_t last_totals_ = kNoIndex32;  // the group of the totals that came last
  // The last peak record that won, for the holders that follow it; epoch 0: none.
  Level restored_level_ = Level::kDriver;
  std::size_t restored_moment_ = kAtPeak;
  std::int32_t restored_device_ = ledger::kHostDevice;
  std::uint32_t restored_epoch_ = 0;
  std::array<BlockGroup, 256> block_groups_;  // by stack, modulo the size
  trace::Checkpoint counts_;
  bool allocations_are_missing_ = false;  // then an unknown address may be anything
  bool graph_memory_ = false;
  bool failed_ = false;
};

}  // namespace gpumemtrace::preload
