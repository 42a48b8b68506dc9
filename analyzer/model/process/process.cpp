// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/process/process.hpp"

#include <new>
#include <set>
#include <utility>

#include "trace/order.hpp"

namespace gpumemtrace::analyzer {

void ProcessModel::apply(const trace::RecordHeader& record, std::uint32_t writer,
                         std::uint64_t effective) {
  present_.time = trace::next_model_time(present_.time, record.kind, effective);
  present_.writer = writer;
  present_.in_checkpoint = writer == trace::kCheckpointWriter;
  if (statistics_.first_time == 0) statistics_.first_time = present_.time;
  statistics_.last_time = present_.time;
  if (!present_.in_checkpoint) accounts_.advance(present_.time);
  // The thread that called exec goes on, so exec failed.
  if (statistics_.exec_time != 0 && writer == exec_writer_) statistics_.exec_time = 0;
  if (trace::is_call(record.kind) && !begin_call(record)) return;
  trace::dispatch(record, [this](const auto& typed) { apply(typed); });
}

// Counts a call and finds its stack. Returns false for a call without an end: the trace ends in it.
bool ProcessModel::begin_call(const trace::RecordHeader& record) {
  const trace::CallHeader& call = trace::as<trace::OtherCall>(record).call;
  ++statistics_.events;
  if (call.end == 0) {
    add_unfinished(record);
    return false;
  }
  present_.stack = program_.stack_of_event(call.stack, false);
  return true;
}

// Passes the record to the first part of the model that takes its type. Other records that are no
// calls go to the dictionary.
template <class Record>
void ProcessModel::apply(const Record& record) {
  if constexpr (requires { memory_.apply(record); }) {
    memory_.apply(record);
  } else if constexpr (requires { activity_.apply(record); }) {
    activity_.apply(record);
  } else if constexpr (requires { checkpoint_.apply(record); }) {
    checkpoint_.apply(record);
  } else if constexpr (!requires { record.call; }) {
    program_.add_text(reinterpret_cast<const trace::RecordHeader&>(record));
  }
}

void ProcessModel::apply(const trace::Device& device) {
  memory_.devices.describe(device, trace::tail_of(device.record));
}

void ProcessModel::apply(const trace::Allocation& call) {
  const GroupKey key = memory_.key_of(call);
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) {
    if (memory_.fail(call, key) && !snapshots_.is_full()) {
      memory_.out_of_memory.set_snapshot(present_.writer,
                                         snapshots_.take(level_of(key.kind), key.device));
    }
    return;
  }
  if (call.address == 0) return;
  memory_.collected.end_collection(present_.writer);
  program_.enter_phase(call.call.stack, false);
  program_.memory_allocated(call);
  if ((record.flags & trace::kFlagCaptured) != 0) return memory_.capture(call, key);
  const std::uint32_t group = accounts_.group_of(key);
  expect_activity(call, group, key.kind);
  // Periodic steps are searched in the framework's blocks; without a framework, in driver memory.
  if (!present_.in_checkpoint && level_of(key.kind) != Level::kHost &&
      memory_.framework.devices().empty()) {
    program_.steps().allocated(group, call.bytes, present_.time);
  }
  memory_.allocate(call, key, group);
  if (memory_.nccl.is_used() && level_of(key.kind) == Level::kDriver && is_nccl(key.site)) {
    memory_.nccl.allocate(present_.writer, key.site, key.device, call.bytes, present_.time);
  }
}

bool ProcessModel::is_nccl(const CallSite& site) const {
  const std::string_view module = program_.dictionary().name_of(site).module;
  return module.find("/libnccl.so") != std::string_view::npos;
}

void ProcessModel::apply(const trace::Annotation& annotation) {
  program_.annotate(annotation);
  if (annotation.source != trace::AnnotationSource::kNvtx || present_.in_checkpoint) return;
  const bool has_name = annotation.operation == trace::AnnotationOperation::kPush;
  memory_.nccl.annotate(annotation,
                        has_name ? program_.steps().name_of(annotation.name) : std::string(),
                        present_.writer, present_.time);
}

void ProcessModel::apply(const trace::Free& call) {
  if (activity_.is_on()) expect_activity(call);
  memory_.free(call);
}

void ProcessModel::apply(const trace::Copy& call) {
  if (!CopyCalls::moved_something(call.call)) {
    return expect_activity(call.call, CallWork::kCopy, {0, call.part}, PendingCall::kNothing);
  }
  program_.enter_phase(call.call.stack, false);
  program_.steps().count_transfer(call.bytes);
  const std::uint32_t row = copies_.add(call);
  const Direction direction = copies_.transfers().row(row).key.direction;
  if (direction == Direction::kHostToDevice) {
    const LiveAllocation* const block = memory_.framework.find_block(call.destination);
    if (block != nullptr) program_.uploaded(call, *block);
  } else if (direction == Direction::kDeviceToDevice) {
    const LiveAllocation* const block = memory_.framework.find_block(call.source);
    if (block != nullptr) program_.copied_on_device(call, *block);
  }
  expect_activity(call.call, CallWork::kCopy, {call.bytes, call.part}, row);
}

void ProcessModel::apply(const trace::Set& call) {
  if (!CopyCalls::moved_something(call.call)) {
    return expect_activity(call.call, CallWork::kSet, {}, PendingCall::kNothing);
  }
  expect_activity(call.call, CallWork::kSet, {call.bytes, 0}, copies_.add(call));
}

void ProcessModel::apply(const trace::Graph& call) {
  memory_.framework.pools().apply(call, present_.writer, present_.site_of(call.call),
                                  present_.time);
  if (call.call.record.result != trace::kCudaSuccess) return;
  if (call.operation == trace::GraphOperation::kLaunch && activity_.is_on() &&
      !present_.in_checkpoint) {
    activity_.join().add_launch(present_.writer, call.call, present_.site_of(call.call));
  }
  memory_.apply(call);
  switch (call.operation) {
    case trace::GraphOperation::kInstantiate: {
      const std::int32_t device = memory_.contexts.device_of(call.call.context);
      const CallSite site = present_.site_of(call.call);
      if (present_.in_checkpoint) return graph_use_.restore_live(device, call.executable, site);
      memory_.driver_use.add_call(device, ledger::DriverCause::kGraphs, site);
      return graph_use_.instantiate(device, call.executable, site);
    }
    case trace::GraphOperation::kLaunch:
      return graph_use_.launch(call.graph);
    case trace::GraphOperation::kDestroyExecutable:
      return graph_use_.destroy_executable(call.graph != 0 ? call.graph : call.executable);
    default:
      return;
  }
}

void ProcessModel::apply(const trace::OtherCall& call) {
  if (call.call.record.result != trace::kCudaSuccess) return;
  const CallSite site = present_.site_of(call.call);
  const std::string_view function = program_.dictionary().name_of(site).api;
  if (!ledger::loads_code(function)) return;
  memory_.driver_use.add_call(memory_.contexts.device_of(call.call.context),
                              ledger::DriverCause::kModules, site);
}

void ProcessModel::apply(const trace::Block& block) {
  ++statistics_.events;
  present_.stack = program_.stack_of_event(block.stack, true);
  if (!ledger::is_gpu_block(block)) return;
  if (block.bytes <= 0) {
    program_.block_released(block, [&] { return memory_.framework.find_block(block.address); });
    (void)memory_.make_room(block);
    program_.block_gone(block.address);
  } else {
    memory_.collected.end_collection(present_.writer);
    const Phase phase = program_.enter_phase(block.stack, true);
    (void)memory_.make_room(block);
    const std::uint32_t group = memory_.begin_block(block, phase);
    program_.block_allocated(group, block);
  }
  // In a checkpoint, the totals include blocks that have no records, so they are not checked.
  if (present_.in_checkpoint) return;
  if (memory_.framework.check_totals(block, present_.time)) ++statistics_.framework_mismatch;
}

// Ignores the name of a tensor at whose address no block of the framework is live.
void ProcessModel::apply(const trace::Tensor& tensor) {
  const LiveAllocation* const block = memory_.framework.find_block(tensor.address);
  if (block != nullptr) program_.name_tensor(tensor, *block);
}

void ProcessModel::apply(const trace::FrameworkOom& record) {
  ++statistics_.events;
  present_.stack = program_.stack_of_event(record.stack, false);
  if (record.device_type != trace::kCudaDeviceType) return;
  const bool is_new =
      memory_.out_of_memory.raised(present_.writer, {.level = Level::kFramework,
                                                     .device = record.device,
                                                     .site = {.stack = present_.stack},
                                                     .time = present_.time,
                                                     .start_ticks = record.record.time,
                                                     .requested_bytes = record.requested});
  if (is_new && !present_.in_checkpoint && !snapshots_.is_full()) {
    memory_.out_of_memory.set_raised_snapshot(snapshots_.take(Level::kFramework, record.device));
  }
  program_.ran_out_of_memory();
}

void ProcessModel::apply(const trace::Thread& thread) {
  memory_.nccl.set_thread(thread.writer != 0 ? thread.writer : present_.writer, thread.thread_id);
  activity_.join().add_thread(thread.writer != 0 ? thread.writer : present_.writer, thread);
  program_.add_thread(thread);
}

// Only NVML's bytes of the process show what the driver uses itself: the bytes beyond the process's
// own allocations.
void ProcessModel::apply(const trace::MemorySample& sample) {
  DeviceState& device = memory_.devices.state(sample.device);
  if (sample.source == trace::SampleSource::kNone) {
    DriverSample free;  // the sample has only the free bytes, which do not show the bytes in use
    free.time = present_.time;
    free.free_bytes = sample.free_bytes;
    free.physical_bytes = device.physical_bytes;
    return snapshots_.add_sample(sample.device, free);
  }
  device.add_sample(sample, present_.time, device.physical_bytes, device.physical_peak.happened());
  if (present_.in_checkpoint) {
    device.most_in_use = std::max(device.most_in_use, ledger::in_use_of(sample));
    device.most_of_process = std::max(device.most_of_process, sample.process_bytes);
  } else {
    device.log.sample(present_.time, sample);
  }
  snapshots_.add_sample(sample.device, device.last_sample);
  if (sample.source != trace::SampleSource::kNvmlProcess || present_.in_checkpoint) return;
  const std::uint64_t held_bytes = device.physical_bytes + device.rounding_bytes;
  memory_.driver_use.sample(sample.device,
                            sample.process_bytes - std::min(sample.process_bytes, held_bytes));
}

void ProcessModel::apply(const trace::ProcessSample& sample) {
  if (present_.in_checkpoint) return;
  memory_.devices.state(sample.device).log.sample(present_.time, sample);
}

// Corrects the device's sample, taken just before: it had counted new reserved bytes of the pool as
// the driver's own use.
void ProcessModel::apply(const trace::PoolSample& sample) {
  const std::int32_t ordinal = memory_.pools.device_of(sample);
  memory_.devices.state(ordinal).log.add(present_.time, CardEventKind::kRoundEnd);
  const std::uint64_t before = memory_.pools.sums_of(ordinal).reserved_bytes;
  memory_.apply(sample);
  memory_.driver_use.count_in_last_sample(ordinal,
                                          memory_.pools.sums_of(ordinal).reserved_bytes - before);
}

void ProcessModel::apply(const trace::ContextLimits& limits) {
  memory_.driver_use.set_limits(limits, memory_.devices.state(limits.device).threads);
}

void ProcessModel::restore_driver_use() {
  memory_.devices.for_each([&](DeviceState& device) {
    for (const DriverSample& sample : {device.before_peak, device.after_peak, device.last_sample}) {
      if (sample.source != trace::SampleSource::kNvmlProcess) continue;
      memory_.driver_use.sample(
          device.ordinal,
          sample.process_bytes - std::min(sample.process_bytes, sample.physical_bytes));
    }
  });
}

void ProcessModel::apply(const trace::Totals& totals) {
  const bool is_of_graphs = totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kGraph);
  is_of_graphs ? graph_use_.restore_destroyed(totals) : checkpoint_.apply(totals);
}

void ProcessModel::apply(const trace::Mark& mark) {
  switch (mark.mark) {
    case trace::MarkKind::kExit: {
      statistics_.exit_seen = true;
      statistics_.exec_time = 0;
      return;
    }
    case trace::MarkKind::kStopped:
      ++statistics_.pauses;
      return;
    case trace::MarkKind::kDisabled:
      statistics_.stopped_because = trace::tail_of(mark.record);
      return;
    case trace::MarkKind::kExec: {
      // The process has further records after a checkpoint, so an exec recorded in it failed.
      if (present_.in_checkpoint) return;
      statistics_.exec_time = present_.time;
      exec_writer_ = present_.writer;
      return;
    }
    case trace::MarkKind::kUser:
      return program_.steps().marks().add(present_.time, MarkSource::kControl,
                                          trace::tail_of(mark.record));
    case trace::MarkKind::kStarted:
      return;
  }
}

void ProcessModel::add_unfinished(const trace::RecordHeader& record) {
  ++statistics_.unfinished_calls;
  if (record.kind == trace::RecordKind::kFree) {
    memory_.unfinished_frees.insert(trace::as<trace::Free>(record).address);
  }
}

void ProcessModel::add_devices(const std::vector<trace::Device>& devices) {
  for (const trace::Device& device : devices) {
    const bool has_uuid = device.uuid_low != 0 || device.uuid_high != 0;
    if (has_uuid) (void)memory_.devices.state(device.ordinal);
  }
}

void ProcessModel::expect_activity(const trace::Allocation& call, std::uint32_t group, Kind kind) {
  if (!activity_.is_on()) return;
  if (kind == Kind::kManaged) {
    activity_.managed().allocate(call.address, call.bytes, group, call.call.record.time);
  }
}

void ProcessModel::expect_activity(const trace::Free& call) {
  if (ledger::meaning_of(call) != ledger::FreeMeaning::kTakesBack) return;
  const LiveAllocation* live =
      memory_.live.find(ProcessMemory::Live::space_of(call.memory), call.address);
  if (live != nullptr && accounts_.group(live->group).key.kind == Kind::kManaged) {
    activity_.managed().free(call.address);
  }
}

void ProcessModel::expect_activity(const trace::CallHeader& call, CallWork work,
                                   const ActivityJoin::CallSize& size, std::uint32_t row) {
  if (activity_.is_on() && !present_.in_checkpoint) {
    activity_.join().add_call(present_.writer, call, work, size, row);
  }
}

void ProcessModel::finish(std::uint64_t shortest_period) {
  memory_.check_parts();
  memory_.out_of_memory.finish();
  activity_.finish();
  program_.finish(shortest_period);
  add_account_devices();
  finish_timelines();
}

void ProcessModel::pause(std::uint64_t shortest_period) {
  memory_.check_parts();
  program_.pause(shortest_period);
  add_account_devices();
}

void ProcessModel::add_account_devices() {
  // Collects the ordinals first: state() may add an account to the list that the loop reads.
  std::set<std::int32_t> ordinals;
  for (const Account& account : accounts_.accounts()) {
    if (account.device >= 0) ordinals.insert(account.device);
  }
  for (const std::int32_t ordinal : ordinals) (void)memory_.devices.state(ordinal);
}

void ProcessModel::finish_timelines() {
  for (const Level level : {Level::kFramework, Level::kDriver, Level::kMapping}) {
    memory_.for_each_live(level,
                          [&](const LiveAllocation& entry) { accounts_.count_life_to_end(entry); });
  }
  accounts_.finish_timelines();
}

}  // namespace gpumemtrace::analyzer
