// SPDX-License-Identifier: Apache-2.0
// The model of one process: what its records say about memory, kept up to date record by record.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/base/words.hpp"
#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/accounts/devices.hpp"
#include "analyzer/model/accounts/handles.hpp"
#include "analyzer/model/activity/activity.hpp"
#include "analyzer/model/copies/repeated_copies.hpp"
#include "analyzer/model/copies/round_trips.hpp"
#include "analyzer/model/copies/transfers.hpp"
#include "analyzer/model/memory/collected.hpp"
#include "analyzer/model/memory/framework.hpp"
#include "analyzer/model/memory/geometry.hpp"
#include "analyzer/model/memory/graphs.hpp"
#include "analyzer/model/memory/memory.hpp"
#include "analyzer/model/memory/out_of_memory.hpp"
#include "analyzer/model/memory/virtual_memory.hpp"
#include "analyzer/model/program/backward_stacks.hpp"
#include "analyzer/model/program/categories.hpp"
#include "analyzer/model/program/phases.hpp"
#include "analyzer/model/program/steps.hpp"
#include "analyzer/model/program/threads.hpp"
#include "analyzer/order/merge.hpp"
#include "analyzer/stacks/dictionary.hpp"
#include "trace/checkpoint_records.hpp"
#include "trace/ledger/address_map.hpp"
#include "trace/ledger/contexts.hpp"
#include "trace/ledger/pools.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

using ledger::Pools;
using ledger::PoolState;
using ledger::PoolSums;

// Where processes meet: the physical devices of the job.
class DeviceRegistry {
 public:
  virtual ~DeviceRegistry() = default;
  // nullptr where the record does not identify a physical device.
  [[nodiscard]] virtual SharedDevice* find_or_add(std::uint32_t process,
                                                  const trace::Device& record) = 0;
};

// How the process's recording went.
struct Course {
  std::uint64_t events = 0;  // calls, blocks and out-of-memory reports
  std::uint64_t first_time = 0;
  std::uint64_t last_time = 0;
  bool exit_seen = false;
  std::uint64_t exec_time = 0;  // when a thread was about to exec and recorded nothing after it
  std::string stopped_because;  // empty: recording went on until the end
  std::uint64_t pauses = 0;
  trace::Gap dropped;  // sums over all gaps
  std::uint64_t unfinished_calls = 0;
  std::uint64_t order_repaired = 0;
  std::uint64_t live_address_allocated = 0;
  std::uint64_t unknown_frees = 0;
  std::uint64_t unknown_context = 0;
  std::uint64_t framework_mismatch = 0;
  std::uint64_t implicit_frees = 0;
  std::uint64_t folded_records = 0;   // that a checkpoint replaced
  std::uint64_t checkpoint_time = 0;  // its cut; 0 = there is none
  bool peaks_are_inexact = false;     // graphs allocated memory before a checkpoint's cut
};

// Frees that the driver refused, of one place.
struct InvalidFree {
  CallSite site;
  std::uint16_t result = 0;
  FreedWhat what = FreedWhat::kNothingKnown;
  friend auto operator<=>(const InvalidFree&, const InvalidFree&) = default;
};

// How many they were, and what the first of them was about.
struct InvalidFreeRow {
  Tally tally;
  std::optional<CallSite> allocated_at;
  std::optional<CallSite> freed_before_at;  // or where its context was ended
  std::uint64_t offset_bytes = 0;           // kInsideLive: from the begin of the allocation
};

// Allocations of one group; segments of the framework apart from the rest, blocks by what they are
// for.
struct HolderKey {
  std::uint32_t group = 0;
  bool segment = false;
  Verdict verdict{};
  friend auto operator<=>(const HolderKey&, const HolderKey&) = default;
};
using Holders = std::map<HolderKey, Tally>;
[[nodiscard]] Holders sum_by_holder(const std::vector<LiveAllocation>& entries);

// Who held what on a device at an out-of-memory failure.
struct OomSnapshot {
  Level level = Level::kDriver;
  std::int32_t device = kUnknownDevice;
  Parts parts;
  DriverSample sample;
  Holders holders;                             // of the level
  Holders driver_holders;                      // of the level driver
  std::optional<Fragmentation> fragmentation;  // of the framework, if it uses the device
};

// - apply() takes the records of all writers in the order of merge.hpp. finish() follows the last.
// - Failed calls are counted and change nothing. A free takes effect when it begins.
// - Memory grows with what is live and with the number of call sites, not with the trace.
class ProcessModel final : private BlockUses {
 public:
  // `waits`: all records of their kind, which are needed before their time comes; so are `clocks`,
  // and `activity`, the most that CUPTI ever recorded. Timelines have at most so many buckets.
  ProcessModel(std::uint32_t index, LookAhead& look_ahead, DeviceRegistry& registry,
               std::vector<trace::WaitingStack> waits, ActivityClocks clocks,
               trace::ActivityMode activity, std::size_t timeline_buckets)
      : index_(index),
        look_ahead_(look_ahead),
        registry_(registry),
        backward_stacks_(std::move(waits), look_ahead, dictionary_.python_stacks()),
        accounts_(*this, timeline_buckets),
        activity_(transfers_, std::move(clocks), activity) {}
  ProcessModel(const ProcessModel&) = delete;
  ProcessModel& operator=(const ProcessModel&) = delete;

  // The process uses this physical device. Known before the first record, other processes' memory
  // on it is counted from the begin.
  void join_device(const trace::Device& device);
  void apply(const trace::RecordHeader& record, std::uint32_t writer, std::uint64_t effective);
  // `shortest_period`: ticks; see Steps.
  void finish(std::uint64_t shortest_period);

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] const Dictionary& dictionary() const { return dictionary_; }
  [[nodiscard]] const BackwardStacks& backward_stacks() const { return backward_stacks_; }
  [[nodiscard]] const Threads& threads() const { return threads_; }
  [[nodiscard]] const Accounts& accounts() const { return accounts_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] const Pools& pools() const { return pools_; }
  [[nodiscard]] const Framework& framework() const { return framework_; }
  [[nodiscard]] const Devices& devices() const { return devices_; }
  [[nodiscard]] const Transfers& transfers() const { return transfers_; }
  [[nodiscard]] const Activity& activity() const { return activity_; }
  [[nodiscard]] const OutOfMemory& out_of_memory() const { return out_of_memory_; }
  [[nodiscard]] const std::vector<OomSnapshot>& snapshots() const { return snapshots_; }
  [[nodiscard]] const std::map<InvalidFree, InvalidFreeRow>& invalid_frees() const {
    return invalid_frees_;
  }
  [[nodiscard]] const CollectedMemory& collected() const { return collected_; }
  [[nodiscard]] const Course& course() const { return course_; }
  [[nodiscard]] const Steps& steps() const { return steps_; }

  // What was live at the moment, of one level on one device; the moment must watch that account.
  [[nodiscard]] std::vector<LiveAllocation> live_at(const PeakSnapshot& moment, Level level,
                                                    std::int32_t device) const;
  // The same by holder, which is known of moments before a checkpoint's cut, too.
  [[nodiscard]] Holders holders_at(const PeakSnapshot& moment, Level level,
                                   std::int32_t device) const;
  // Gradients of a former step that were live at the account's peak, outside of the optimizer.
  [[nodiscard]] Holders gradients_left_at_peak(const Account& account) const;
  // What is live now.
  [[nodiscard]] std::vector<LiveAllocation> live_now(Level level, std::int32_t device) const;
  [[nodiscard]] Fragmentation fragmentation_at(const PeakSnapshot& moment,
                                               std::int32_t device) const;
  [[nodiscard]] Fragmentation fragmentation_now(std::int32_t device) const;
  [[nodiscard]] std::vector<OpenHandle> open_handles() const;
  // All that were opened, those that are closed again included; graphs are not counted.
  [[nodiscard]] std::vector<OpenedHandles> opened_handles() const;
  // The process's physical bytes on the device by what they are for.
  [[nodiscard]] Parts parts_now(std::int32_t device) const;

  // All that were seen, also those that have ended.
  [[nodiscard]] const ledger::MappedArray<ledger::Context>& contexts() const {
    return contexts_.contexts();
  }

 private:
  // process.cpp: the course of the trace, contexts, devices, samples
  // A second event of the present record: no two share a moment.
  void begin_next_moment() { accounts_.advance(++now_); }
  void pools_changed(std::int32_t device);
  void finish_timelines();
  void apply_call(const trace::RecordHeader& record, std::uint32_t writer);
  void apply_rest(const trace::RecordHeader& record, std::uint32_t writer);
  // A call that the trace ends in.
  void note_unfinished(const trace::RecordHeader& record);
  // The stack of the present event. Of the time before a checkpoint's cut too little is left to
  // tell who waited.
  void note_stack(std::uint32_t stack, std::uint32_t writer, bool is_block) {
    present_stack_ =
        in_checkpoint_ ? stack : backward_stacks_.stack_of_event(writer, stack, now_, is_block);
  }
  // Where the call came from; with the stack of present_stack_ where it is the present record.
  [[nodiscard]] CallSite site_of(const trace::CallHeader& call) const;
  void apply_mark(const trace::Mark& mark, std::uint32_t writer);
  void apply_gap(const trace::Gap& gap);
  void apply_context_call(const trace::ContextCall& call);
  void apply_pool_sample(const trace::PoolSample& sample);
  void physical_changed(std::int32_t device);

  // process_memory.cpp: calls that hand memory out and take it back
  void apply_allocation(const trace::Allocation& call, std::uint32_t writer);
  void apply_free(const trace::Free& call, std::uint32_t writer);
  void note_for_activity(const trace::Allocation& call, std::uint32_t group, Kind kind);
  void note_for_activity(const trace::Free& call, Memory::Space space);
  // Before the record's free takes effect. `find` says what it frees, nullptr where that is not
  // known.
  template <class Find>
  void note_collected(const trace::RecordHeader& record, std::uint32_t writer, Find&& find) {
    if ((record.flags & trace::kFlagCollected) == 0) return collected_.end_collection(writer);
    const LiveAllocation* const live = find();
    if (live != nullptr) collected_.free(writer, *live, now_);
  }
  void apply_refused_free(const trace::Free& call, Memory::Space space);
  // `call` is the one that gave it back where that is the present record.
  void release_handle(std::uint64_t handle, std::uint32_t writer,
                      const trace::CallHeader* call = nullptr);
  void after_physical_release(const VirtualMemory::Removed& freed, std::uint32_t writer,
                              const trace::CallHeader* call);
  void release_import(std::uint64_t key_address, const trace::CallHeader& call);
  void add(const LiveAllocation& entry, const GroupKey& key);
  void make_room(Memory::Space space, std::uint64_t address);
  // False where nothing is live at the address. `call` is the free where it is the present record.
  bool release(Memory::Space space, std::uint64_t address, std::uint32_t writer,
               const trace::CallHeader* call = nullptr);
  void after_release(const LiveAllocation& entry);
  [[nodiscard]] GroupKey key_of(const trace::CallHeader& call, Kind kind, std::int32_t location);

  // process_mapping.cpp: virtual memory, pools, graphs, imported memory
  void apply_mapping(const trace::Mapping& call, std::uint32_t writer);
  void reserve(const trace::Mapping& call);
  void map(const trace::Mapping& call);
  void unmap(const trace::Mapping& call, std::uint32_t writer);
  void import_handle(const trace::Mapping& call);
  void apply_pool_call(const trace::Pool& call);
  void apply_graph(const trace::Graph& call, std::uint32_t writer);
  void launch(const GraphMemory& graph, std::uint32_t writer);
  void apply_import(const trace::Import& call);

  // process_transfers.cpp
  // Allocations are missing, so an address that nobody knows may be anything.
  [[nodiscard]] bool blind() const {
    return course_.pauses != 0 || course_.dropped.allocations != 0;
  }
  void apply_copy(const trace::Copy& call);
  // `row` is where the copy was counted.
  void note_round_trip(const trace::Copy& call, Direction direction, std::uint32_t row,
                       std::uint64_t host_ticks);
  // When the block or allocation that begins there was made; 0 where none does.
  [[nodiscard]] std::uint64_t birth_of(std::uint64_t address);
  static void note_repetition(const trace::Copy& call, TransferRow& row);
  void note_content(const trace::Copy& call, std::uint32_t row);
  void apply_set(const trace::Set& call);
  // Records of CUPTI may come that are about this call.
  void await_activity(const trace::CallHeader& call, CallWork work,
                      const ActivityJoin::CallSize& size, std::uint32_t row);

  // process_checkpoint.cpp: what stands for records that are gone
  void restore_totals(const trace::Totals& totals);
  void restore_allocations(const trace::Totals& totals);
  void restore_transfers(const trace::Totals& totals);
  void restore_recent_free(const trace::RecentFree& recent);
  void restore_refused_frees(const trace::RefusedFree& refused);
  void restore_peak(const trace::Peak& peak);
  void restore_account_peak(const trace::Peak& peak);
  void restore_physical_peak(const trace::Peak& peak);
  void restore_peak_holder(const trace::PeakHolder& holder);
  void finish_checkpoint(const trace::Checkpoint& checkpoint);

  // process_framework.cpp: blocks and what the framework says
  void apply_block(const trace::Block& block, std::uint32_t writer);
  void apply_framework_oom(const trace::FrameworkOom& record, std::uint32_t writer);
  [[nodiscard]] std::uint32_t discover_segment(std::uint64_t address);
  void note_failure(const trace::Allocation& call, const GroupKey& key, std::uint32_t writer);
  [[nodiscard]] std::uint32_t take_snapshot(Level level, std::int32_t device);

  // process_course.cpp
  void apply_thread(const trace::Thread& thread);
  void apply_annotation(const trace::Annotation& annotation);
  // Every event with a stack goes through here; the phase that it belongs to.
  Phase note_phase(std::uint32_t stack, bool is_block);
  void note_block_release(const trace::Block& block);
  void note_block(std::uint32_t group, std::uint64_t bytes);
  void note_upload(const trace::Copy& call);
  [[nodiscard]] BlockUse use_of(const LiveAllocation& block, const Lifetime& life) const override;
  [[nodiscard]] Verdict verdict_on(std::uint32_t group, std::uint64_t bytes,
                                   const Lifetime& life) const;
  [[nodiscard]] HolderKey holder_of_block(const LiveAllocation& block) const;
  [[nodiscard]] Holders live_block_holders(std::int32_t device) const;
  [[nodiscard]] Holders block_holders_at(const PeakSnapshot& moment, std::int32_t device) const;
  // Calls visit(block, its holder) for each block of the device that was live at the moment.
  template <class Visit>
  void for_each_block_at(const PeakSnapshot& moment, std::int32_t device, Visit&& visit) const;

  // process_moments.cpp
  template <class Visit>
  void for_each_live(Level level, Visit&& visit) const;
  [[nodiscard]] bool belongs(const LiveAllocation& entry, Level level, std::int32_t device) const;
  [[nodiscard]] Fragmentation measure(const std::vector<LiveAllocation>& driver,
                                      const std::vector<LiveAllocation>& mappings,
                                      std::vector<LiveAllocation> blocks) const;

  std::uint32_t index_;
  LookAhead& look_ahead_;
  DeviceRegistry& registry_;
  // Model time: the ticks at which the present record took effect, made strictly increasing so
  // that no two events share a moment.
  std::uint64_t now_ = 0;

  Dictionary dictionary_;
  Threads threads_;
  BackwardStacks backward_stacks_;
  std::uint32_t present_stack_ = 0;  // of the present event, joined where that was needed
  Accounts accounts_;
  Memory memory_{accounts_};
  VirtualMemory virtual_memory_{accounts_};
  Framework framework_{accounts_};
  Devices devices_{accounts_};
  Pools pools_;
  Graphs graphs_;
  ledger::AddressMap address_map_;
  Transfers transfers_;
  Activity activity_;
  struct WriterThread {
    std::uint64_t id = 0;
    bool is_first = false;  // the thread that the process began with
  };

  static constexpr std::size_t kMaxParameterSizes = 1 << 16;

  Phases phases_{dictionary_.python_stacks(), accounts_.phase_clock()};
  Steps steps_{accounts_};
  std::uint32_t writer_ = 0;  // of the present record
  std::vector<WriterThread> writer_threads_;
  std::set<std::uint64_t> parameter_sizes_;
  std::set<std::uint32_t> input_groups_;
  OutOfMemory out_of_memory_;
  std::vector<OomSnapshot> snapshots_;
  std::map<InvalidFree, InvalidFreeRow> invalid_frees_;
  CollectedMemory collected_;
  ledger::Contexts contexts_;
  RoundTrips round_trips_;
  RepeatedCopies repeated_copies_;
  std::set<std::uint64_t> external_mappings_;  // freed by cuMemFree, no memory of their own
  // What threads were about to free when the trace ended: whether it is live is not known, unless
  // the address is handed out again.
  std::set<std::uint64_t> unfinished_frees_;
  Course course_;
  std::uint32_t exec_writer_ = 0;
  bool in_checkpoint_ = false;  // the present record stands in a checkpoint
  // Of the checkpoint's peak record that came last: where its holders belong. nullptr: nowhere.
  PeakSnapshot* restored_peak_ = nullptr;
  Level restored_level_ = Level::kDriver;
  std::int32_t restored_device_ = kUnknownDevice;
  std::optional<std::uint32_t> restored_group_;  // of the checkpoint's totals that came last
  std::uint64_t searched_version_ = 0;  // of memory_, when a search for a segment found nothing
};

}  // namespace gpumemtrace::analyzer
