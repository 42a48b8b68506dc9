// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/process/process.hpp"

#include <new>

#include "trace/order.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {
namespace {

bool hands_memory_out_or_moves_it(trace::RecordKind kind) {
  return kind == trace::RecordKind::kAllocation || kind == trace::RecordKind::kFree ||
         kind == trace::RecordKind::kCopy || kind == trace::RecordKind::kSet;
}

}  // namespace

void ProcessModel::apply(const trace::RecordHeader& record, std::uint32_t writer,
                         std::uint64_t effective) {
  now_ = trace::next_model_time(now_, record.kind, effective);
  if (course_.first_time == 0) course_.first_time = now_;
  course_.last_time = now_;
  in_checkpoint_ = writer == trace::kCheckpointWriter;
  writer_ = writer;
  if (!in_checkpoint_) accounts_.advance(now_);
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
      (void)contexts_.announce(trace::as<trace::Context>(record));
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
      device.add_sample(sample, now_, device.physical_bytes, device.physical_peak.happened());
      // A failure that came before the first sample: this one is nearest.
      for (OomSnapshot& snapshot : snapshots_) {
        const bool misses_one = snapshot.device == sample.device && snapshot.sample.time == 0;
        if (misses_one) snapshot.sample = device.last_sample;
      }
      return;
    }
    case trace::RecordKind::kPoolSample:
      return apply_pool_sample(trace::as<trace::PoolSample>(record));
    case trace::RecordKind::kName:
      return steps_.add_name(trace::as<trace::Name>(record).id, trace::tail_of(record));
    case trace::RecordKind::kAnnotation:
      return apply_annotation(trace::as<trace::Annotation>(record));
    case trace::RecordKind::kMark:
      return apply_mark(trace::as<trace::Mark>(record), writer);
    case trace::RecordKind::kGap:
      return apply_gap(trace::as<trace::Gap>(record));
    case trace::RecordKind::kTotals:
      return restore_totals(trace::as<trace::Totals>(record));
    case trace::RecordKind::kPeak:
      return restore_peak(trace::as<trace::Peak>(record));
    case trace::RecordKind::kPeakHolder:
      return restore_peak_holder(trace::as<trace::PeakHolder>(record));
    case trace::RecordKind::kCheckpoint:
      return finish_checkpoint(trace::as<trace::Checkpoint>(record));
    case trace::RecordKind::kRefusedFree:
      return restore_refused_frees(trace::as<trace::RefusedFree>(record));
    case trace::RecordKind::kRecentFree:
      return restore_recent_free(trace::as<trace::RecentFree>(record));
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
    case trace::MarkKind::kUser: {
      return steps_.marks().add(now_, MarkSource::kControl, trace::tail_of(mark.record));
    }
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

void ProcessModel::apply_context_call(const trace::ContextCall& call) {
  (void)contexts_.open(call, site_of(call.call));
  const EndedBy reason = ledger::end_of(call);
  if (reason == EndedBy::kNothing) return;
  const auto ends = [&](const LiveAllocation& entry) {
    const GroupKey& key = accounts_.group(entry.group).key;
    return contexts_.ends_with(call, key.kind, key.device, key.context);
  };
  const std::vector<LiveAllocation> ended =
      memory_.end_all(ends, {reason, course_.exit_seen, site_of(call.call)});
  course_.implicit_frees += ended.size();
  for (const LiveAllocation& entry : ended) after_release(entry);
}

void ProcessModel::apply_pool_sample(const trace::PoolSample& sample) {
  if (in_checkpoint_) return pools_.restore_sample(sample);
  const std::int32_t device = pools_.device_of(sample);
  const std::uint64_t reserved_bytes = pools_.sums_of(device).reserved_bytes;
  if (!pools_.apply_sample(sample, now_)) return;
  devices_.state(device).count_in_last_sample(pools_.sums_of(device).reserved_bytes -
                                              reserved_bytes);
  pools_changed(device);
}

void ProcessModel::pools_changed(std::int32_t device) {
  accounts_.set_reserved(accounts_.account_of(Level::kPool, device),
                         pools_.sums_of(device).reserved_bytes);
  physical_changed(device);
}

void ProcessModel::physical_changed(std::int32_t device) {
  DeviceState& state = devices_.state(device);
  const std::uint64_t physical = state.driver->bytes + pools_.sums_of(device).reserved_bytes;
  if (change_physical(state, physical, index_, now_)) state.at_peak = parts_now(device);
}

void ProcessModel::finish(std::uint64_t shortest_period) {
  if (contexts_.failed() || pools_.failed() || address_map_.failed() || virtual_memory_.failed()) {
    throw std::bad_alloc();
  }
  out_of_memory_.finish();
  activity_.finish();
  steps_.finish(phases_.has_invisible_step(), shortest_period);
  // Every device that memory was counted on is a device of the process.
  for (const Account& account : accounts_.accounts()) {
    if (account.device >= 0) (void)devices_.state(account.device);
  }
  finish_timelines();
}

void ProcessModel::finish_timelines() {
  const auto lives_on = [&](const LiveAllocation& entry) { accounts_.count_life_to_end(entry); };
  framework_.for_each_block(lives_on);
  memory_.for_each(lives_on);
  virtual_memory_.for_each_physical(lives_on);
  accounts_.finish_timelines();
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
