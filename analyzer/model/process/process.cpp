// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/process/process.hpp"

#include <algorithm>

#include "trace/order.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Far above what any process has; a damaged record must not make the table huge.
constexpr std::uint32_t kMaxContexts = 1 << 16;

bool hands_memory_out_or_moves_it(trace::RecordKind kind) {
  return kind == trace::RecordKind::kAllocation || kind == trace::RecordKind::kFree ||
         kind == trace::RecordKind::kCopy || kind == trace::RecordKind::kSet;
}

// What a pool holds back from the driver is told after the driver's number for the device, in the
// same round of questions: the number had counted it already. `more_bytes` may be less than
// nothing.
void count_in_last_sample(DeviceState& device, std::uint64_t more_bytes) {
  const std::uint64_t round = device.last_sample.time;
  if (round == 0) return;
  for (DriverSample* sample : {&device.last_sample, &device.before_peak, &device.after_peak}) {
    if (sample->time == round) sample->physical_bytes += more_bytes;
  }
}

}  // namespace

void ProcessModel::apply(const trace::RecordHeader& record, std::uint32_t writer,
                         std::uint64_t effective) {
  now_ = std::max(now_ + 1, effective);
  if (course_.first_time == 0) course_.first_time = now_;
  course_.last_time = now_;
  in_checkpoint_ = writer == trace::kCheckpointWriter;
  writer_ = writer;
  if (course_.exec_time != 0 && writer == exec_writer_) course_.exec_time = 0;  // it failed
  if (trace::is_call(record.kind)) return apply_call(record, writer);
  if (Activity::is_activity(record.kind)) return activity_.apply(record);
  if (record.kind == trace::RecordKind::kBlock) {
    return apply_block(trace::as<trace::Block>(record), writer);
  }
  apply_rest(record, writer);
}

void ProcessModel::apply_call(const trace::RecordHeader& record, std::uint32_t writer) {
  const trace::CallHeader& call = trace::as<trace::OtherCall>(record).call;
  ++course_.events;
  if (call.end == 0) return note_unfinished(record);
  note_stack(call.stack, writer, false);
  if (activity_.checks_memory() && !hands_memory_out_or_moves_it(record.kind)) {
    activity_.memory_check().add_other_call(call);
  }
  switch (record.kind) {
    case trace::RecordKind::kAllocation:
      return apply_allocation(trace::as<trace::Allocation>(record), writer);
    case trace::RecordKind::kFree:
      return apply_free(trace::as<trace::Free>(record), writer);
    case trace::RecordKind::kCopy:
      return apply_copy(trace::as<trace::Copy>(record));
    case trace::RecordKind::kSet:
      return apply_set(trace::as<trace::Set>(record));
    case trace::RecordKind::kMapping:
      return apply_mapping(trace::as<trace::Mapping>(record), writer);
    case trace::RecordKind::kPool:
      return apply_pool_call(trace::as<trace::Pool>(record));
    case trace::RecordKind::kGraph:
      return apply_graph(trace::as<trace::Graph>(record), writer);
    case trace::RecordKind::kImport:
      return apply_import(trace::as<trace::Import>(record));
    case trace::RecordKind::kContextCall:
      return apply_context_call(trace::as<trace::ContextCall>(record));
    default:
      return;
  }
}

void ProcessModel::note_unfinished(const trace::RecordHeader& record) {
  ++course_.unfinished_calls;
  if (record.kind == trace::RecordKind::kFree) {
    unfinished_frees_.insert(trace::as<trace::Free>(record).address);
  }
}

void ProcessModel::apply_rest(const trace::RecordHeader& record, std::uint32_t writer) {
  switch (record.kind) {
    case trace::RecordKind::kFrameworkOom:
      return apply_framework_oom(trace::as<trace::FrameworkOom>(record), writer);
    case trace::RecordKind::kThread: {
      const auto& thread = trace::as<trace::Thread>(record);
      threads_.add(thread, trace::tail_of(record), writer);
      backward_stacks_.add_thread(writer, thread.thread_id);
      activity_.join().add_thread(thread.writer != 0 ? thread.writer : writer, thread);
      return apply_thread(thread);
    }
    case trace::RecordKind::kStack: {
      const auto& stack = trace::as<trace::Stack>(record);
      threads_.add_stack(stack.id, writer);
      backward_stacks_.add_stack(stack);
      return dictionary_.add(record);
    }
    case trace::RecordKind::kContext: {
      const auto& context = trace::as<trace::Context>(record);
      ContextInfo* const known = find_or_add_context(context.id);
      if (known == nullptr) return;
      known->device = context.device;
      known->primary = context.primary != 0;
      return;
    }
    case trace::RecordKind::kDevice: {
      const auto& device = trace::as<trace::Device>(record);
      devices_.describe(device, trace::tail_of(record));
      return join_device(device);
    }
    case trace::RecordKind::kMemorySample: {
      const auto& sample = trace::as<trace::MemorySample>(record);
      DeviceState& device = devices_.state(sample.device);
      note_sample(device, sample, now_);
      // A failure that came before the first sample: this one is nearest.
      for (OomSnapshot& snapshot : snapshots_) {
        const bool misses_one = snapshot.device == sample.device && snapshot.sample.time == 0;
        if (misses_one) snapshot.sample = device.last_sample;
      }
      return;
    }
    case trace::RecordKind::kPoolSample: {
      const auto& sample = trace::as<trace::PoolSample>(record);
      // Of a pool that the program made, the sample does not say the device.
      const std::int32_t device =
          sample.device >= 0 ? sample.device
                             : pools_.device_of(pools_.pool_of(sample.pool, sample.device));
      const std::uint64_t reserved_bytes = pools_.sums_of(device).reserved_bytes;
      if (!pools_.note_sample(sample, now_)) return;
      count_in_last_sample(devices_.state(device),
                           pools_.sums_of(device).reserved_bytes - reserved_bytes);
      return physical_changed(device);
    }
    case trace::RecordKind::kName:
      return steps_.add_name(trace::as<trace::Name>(record).id, trace::tail_of(record));
    case trace::RecordKind::kAnnotation:
      return apply_annotation(trace::as<trace::Annotation>(record));
    case trace::RecordKind::kMark:
      return apply_mark(trace::as<trace::Mark>(record), writer);
    case trace::RecordKind::kGap:
      return apply_gap(trace::as<trace::Gap>(record));
    case trace::RecordKind::kTotals:
      return apply_totals(trace::as<trace::Totals>(record));
    case trace::RecordKind::kPeak:
      return apply_peak(trace::as<trace::Peak>(record));
    case trace::RecordKind::kPeakHolder:
      return apply_peak_holder(trace::as<trace::PeakHolder>(record));
    case trace::RecordKind::kCheckpoint:
      return apply_checkpoint(trace::as<trace::Checkpoint>(record));
    default:
      return dictionary_.add(record);
  }
}

void ProcessModel::join_device(const trace::Device& device) {
  SharedDevice* shared = registry_.find_or_add(index_, device);
  if (shared != nullptr) join(devices_.state(device.ordinal), *shared, index_, now_);
}

void ProcessModel::apply_mark(const trace::Mark& mark, std::uint32_t writer) {
  switch (mark.mark) {
    case trace::MarkKind::kExit: {
      course_.exit_seen = true;
      course_.exec_time = 0;
      return;
    }
    case trace::MarkKind::kStopped: {
      ++course_.pauses;
      return;
    }
    case trace::MarkKind::kDisabled: {
      course_.stopped_because = trace::tail_of(mark.record);
      return;
    }
    case trace::MarkKind::kExec: {
      // One that was folded lies before records that are still there: it failed.
      if (in_checkpoint_) return;
      course_.exec_time = now_;
      exec_writer_ = writer;
      return;
    }
    case trace::MarkKind::kUser:
    case trace::MarkKind::kStarted: {
      return;
    }
  }
}

void ProcessModel::apply_gap(const trace::Gap& gap) {
  course_.dropped.allocations += gap.allocations;
  course_.dropped.frees += gap.frees;
  course_.dropped.copies += gap.copies;
  course_.dropped.blocks += gap.blocks;
  course_.dropped.others += gap.others;
  course_.dropped.stacks += gap.stacks;
  course_.dropped.parts += gap.parts;
}

ProcessModel::ContextInfo* ProcessModel::find_or_add_context(std::uint32_t id) {
  if (id >= kMaxContexts) return nullptr;
  if (id >= contexts_.size()) contexts_.resize(id + 1);
  return &contexts_[id];
}

void ProcessModel::apply_context_call(const trace::ContextCall& call) {
  if (call.call.record.result != trace::kCudaSuccess) return;
  switch (call.operation) {
    case trace::ContextOperation::kCreate:
    case trace::ContextOperation::kRetainPrimary: {
      ContextInfo* const opened = find_or_add_context(call.handle_context);
      if (opened != nullptr && opened->opened_at == CallSite{}) {
        opened->opened_at = site_of(call.call);
      }
      return;
    }
    case trace::ContextOperation::kDestroy:
      return end_context(call, kUnknownDevice, EndedBy::kContextDestroyed);
    case trace::ContextOperation::kResetPrimary:
      return end_context(call, call.device, EndedBy::kPrimaryReset);
    case trace::ContextOperation::kReleasePrimary: {
      if (call.still_active == 0) end_context(call, call.device, EndedBy::kPrimaryReleased);
      return;
    }
    default:
      return;
  }
}

// Physical memory handles belong to the process and stay. Pools belong to the device and end with
// its primary context.
void ProcessModel::end_context(const trace::ContextCall& call, std::int32_t device,
                               EndedBy reason) {
  const std::uint32_t context = call.handle_context;
  const bool primary = reason != EndedBy::kContextDestroyed;
  const auto in_context = [&](std::uint32_t id) {
    if (context != 0 || !primary) return id == context && id != 0;
    return id != 0 && id < contexts_.size() && contexts_[id].primary &&
           contexts_[id].device == device;
  };
  const auto ends = [&](const LiveAllocation& entry) {
    const GroupKey& key = accounts_.group(entry.group).key;
    if (key.kind == Kind::kStreamOrdered) return primary && key.device == device;
    return in_context(key.context);
  };
  const std::vector<LiveAllocation> ended =
      memory_.end_all(ends, {reason, course_.exit_seen, site_of(call.call)});
  course_.implicit_frees += ended.size();
  for (const LiveAllocation& entry : ended) after_release(entry);
}

void ProcessModel::physical_changed(std::int32_t device) {
  DeviceState& state = devices_.state(device);
  const std::uint64_t physical = state.driver->bytes + pools_.sums_of(device).reserved_bytes;
  if (change_physical(state, physical, index_, now_)) state.at_peak = parts_now(device);
}

void ProcessModel::finish(std::uint64_t shortest_period) {
  out_of_memory_.finish();
  activity_.finish();
  steps_.finish(phases_.has_invisible_step(), shortest_period);
  // Every device that memory was counted on is a device of the process.
  for (const Account& account : accounts_.accounts()) {
    if (account.device >= 0) (void)devices_.state(account.device);
  }
}

Parts ProcessModel::parts_now(std::int32_t device) const {
  Parts parts;
  parts.time = now_;
  const FrameworkDevice* framework = framework_.find(device);
  if (framework != nullptr) parts.framework_allocated = framework->blocks->bytes;
  const PoolSums pools = pools_.sums_of(device);
  parts.pool_used = pools.used_bytes;
  parts.pool_reserved = pools.reserved_bytes;
  const auto found = devices_.devices().find(device);
  if (found != devices_.devices().end()) parts.driver = found->second.driver->bytes;
  return parts;
}

}  // namespace gpumemtrace::analyzer
