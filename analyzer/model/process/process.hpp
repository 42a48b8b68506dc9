// SPDX-License-Identifier: Apache-2.0
// The model of one process: each of its records goes to the parts that it concerns.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/accounts/present_record.hpp"
#include "analyzer/model/accounts/run_statistics.hpp"
#include "analyzer/model/activity/activity.hpp"
#include "analyzer/model/copies/copy_calls.hpp"
#include "analyzer/model/memory/process_memory.hpp"
#include "analyzer/model/process/checkpoint_restore.hpp"
#include "analyzer/model/process/graph_use.hpp"
#include "analyzer/model/process/holder_sums.hpp"
#include "analyzer/model/program/program.hpp"
#include "analyzer/order/merge.hpp"
#include "trace/reader.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// - apply() takes the records of all writers in the order of merge.hpp. finish() follows the last
//   record.
// - Failed calls are counted and change nothing. A free takes effect when its call begins.
// - Memory grows with live allocations, call sites and samples of the driver, not with calls.
class ProcessModel final {
 public:
  // Takes data of the whole trace that the model needs before the first record. `waits`: all
  // WaitingStack records. `clocks`: converts CUPTI's times. `activity`: the widest mode that CUPTI
  // ever recorded in. `ns_per_tick`: the average over the trace.
  ProcessModel(std::uint32_t index, LookAhead& look_ahead, std::vector<trace::WaitingStack> waits,
               ActivityClocks clocks, trace::ActivityMode activity, const ModelDetail& detail,
               double ns_per_tick)
      : accounts_(program_, present_, detail, ns_per_tick),
        program_(present_, accounts_, look_ahead, std::move(waits)),
        memory_(index, present_, statistics_, accounts_, look_ahead),
        activity_(copies_.transfers(), std::move(clocks), activity) {}
  ProcessModel(const ProcessModel&) = delete;
  ProcessModel& operator=(const ProcessModel&) = delete;

  // Both must be called before the first record; see Accounts.
  void set_window(const Window& window) { accounts_.set_window(window); }
  void request_snapshot(std::uint64_t time) { accounts_.request_snapshot(time); }
  // Adds the physical devices that the process uses, before the first record: so they come first in
  // the report.
  void add_devices(const std::vector<trace::Device>& devices);
  void apply(const trace::RecordHeader& record, std::uint32_t writer, std::uint64_t effective);
  // `shortest_period`: ticks, as in Steps.
  void finish(std::uint64_t shortest_period);
  // Called instead of finish() if more records may follow. Live memory, peaks and steps can then be
  // read as after finish(), but timelines and failed requests cannot. Call go_on() before the next
  // record.
  void pause(std::uint64_t shortest_period);
  void go_on() { program_.go_on(); }

  [[nodiscard]] std::uint32_t index() const { return memory_.process; }
  [[nodiscard]] const RunStatistics& statistics() const { return statistics_; }
  [[nodiscard]] const Accounts& accounts() const { return accounts_; }
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const ProcessMemory& memory() const { return memory_; }
  [[nodiscard]] const Transfers& transfers() const { return copies_.transfers(); }
  [[nodiscard]] const PinnedUse& pinned_use() const { return copies_.pinned_use(); }
  [[nodiscard]] const Activity& activity() const { return activity_; }
  [[nodiscard]] const ledger::DriverUse& driver_use() const { return memory_.driver_use; }
  [[nodiscard]] const GraphsOfDevices& graph_use() const { return graph_use_; }
  [[nodiscard]] const HolderSums& holders() const { return holders_; }
  [[nodiscard]] const std::vector<OomSnapshot>& snapshots() const { return snapshots_.all(); }

 private:
  [[nodiscard]] bool begin_call(const trace::RecordHeader& record);
  // Gives a record to the one part of the model that it concerns; kinds that concern several parts
  // have overloads. Calls that concern no part do nothing; all other kinds go to the dictionary.
  template <class Record>
  void apply(const Record& record);
  void apply(const trace::Allocation& call);
  void apply(const trace::Free& call);
  void apply(const trace::Copy& call);
  void apply(const trace::Set& call);
  void apply(const trace::Graph& call);
  void apply(const trace::Block& block);
  void apply(const trace::Tensor& tensor);
  void apply(const trace::FrameworkOom& record);
  void apply(const trace::Thread& thread);
  void apply(const trace::MemorySample& sample);
  void apply(const trace::ProcessSample& sample);
  void apply(const trace::PoolSample& sample);
  void apply(const trace::ContextLimits& limits);
  void apply(const trace::OtherCall& call);
  void apply(const trace::Totals& totals);
  void apply(const trace::Mark& mark);
  void apply(const trace::Device& device);
  void apply(const trace::WaitingStack& wait) { program_.add_wait(wait); }
  void apply(const trace::Stack& stack) { program_.add_stack(stack); }
  void apply(const trace::Context& context) { (void)memory_.contexts.announce(context); }
  void apply(const trace::Name& name) {
    program_.steps().add_name(name.id, trace::tail_of(name.record));
  }
  void apply(const trace::Annotation& annotation);
  void apply(const trace::DriverTaken& taken) { memory_.driver_use.restore(taken); }
  void apply(const trace::DriverShare& share) { memory_.driver_use.restore(share); }
  void apply(const trace::ContextTaken& taken) { memory_.driver_use.restore(taken); }
  void apply(const trace::Gap& gap) { statistics_.add(gap); }
  void apply(const trace::Checkpoint& checkpoint) {
    checkpoint_.finish(checkpoint);
    if (!memory_.driver_use.is_restored()) restore_driver_use();
    program_.begin_after(checkpoint);
    activity_.apply_checkpoint(checkpoint);
  }
  // True if the call site is in NCCL's library, which then owns the memory.
  [[nodiscard]] bool is_nccl(const CallSite& site) const;
  // Restores the memory that the driver itself uses, if the checkpoint has no records of it: from
  // samples for which the bytes of the process's own calls are known.
  void restore_driver_use();
  // Counts a call that has no end: the trace ends in it.
  void add_unfinished(const trace::RecordHeader& record);
  void finish_timelines();
  // Adds every device that has an account to the devices of the process.
  void add_account_devices();

  // Notes an allocation or a free of managed memory, whose page migrations CUPTI may report.
  void expect_activity(const trace::Allocation& call, std::uint32_t group, Kind kind);
  void expect_activity(const trace::Free& call);
  // Notes a call about which CUPTI may report work on the GPU.
  void expect_activity(const trace::CallHeader& call, CallWork work,
                       const ActivityJoin::CallSize& size, std::uint32_t row);

  PresentRecord present_;
  RunStatistics statistics_;
  Accounts accounts_;
  Program program_;
  ProcessMemory memory_;
  CopyCalls copies_{memory_};
  Activity activity_;
  GraphsOfDevices graph_use_;
  HolderSums holders_{memory_, program_};
  OomSnapshots snapshots_{memory_, holders_};
  CheckpointRestore checkpoint_{memory_, copies_};
  std::uint32_t exec_writer_ = 0;  // writer whose thread was about to exec
};

}  // namespace gpumemtrace::analyzer
