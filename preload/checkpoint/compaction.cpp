// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/compaction.hpp"

#include <string.h>

#include <string_view>

#include "trace/activity_records.hpp"
#include "trace/order.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kMaxThreads = 4096;

bool is_event(trace::RecordKind kind) noexcept {
  return trace::is_call(kind) || kind == trace::RecordKind::kBlock ||
         kind == trace::RecordKind::kFrameworkOom;
}

template <class Record>
const Record& as(const trace::RecordHeader& record) noexcept {
  return reinterpret_cast<const Record&>(record);
}

// The tail, without the zeros that fill its last word.
std::string_view text_of(const trace::Name& name) noexcept {
  const std::size_t bytes = name.record.words * trace::kWordBytes - sizeof name;
  const auto* const text = reinterpret_cast<const char*>(&name + 1);
  return {text, strnlen(text, bytes)};
}

}  // namespace

RecordId Compaction::retain(const trace::RecordHeader& record) noexcept {
  const RecordId id = retained_.retain(record);
  if (id == 0) failed_ = true;
  return id;
}

void Compaction::drop(RecordId id) noexcept {
  if (id == 0) return;
  count_gone(retained_.record(id));
  retained_.drop(id);
}

void Compaction::count_gone(const trace::RecordHeader& record) noexcept {
  ++counts_.records;
  if (is_event(record.kind)) ++counts_.events;
}

// A call whose time and arguments no report asks for.
void Compaction::count_only(const trace::RecordHeader& record) noexcept {
  count_gone(record);
  GroupKey key;
  key.kind = static_cast<std::uint32_t>(record.kind);
  key.api = record.api;
  const std::uint32_t index = sums_.group_of(key);
  if (index == kNoIndex32) return;
  const bool has_failed = trace::is_call(record.kind) && record.result != trace::kCudaSuccess;
  ++(has_failed ? sums_.group(index).failed : sums_.group(index).count);
}

void Compaction::add(const trace::RecordHeader& record, std::uint32_t writer,
                     std::uint64_t ticks) noexcept {
  using trace::RecordKind;
  ticks_ = ticks;
  now_ = trace::next_model_time(now_, record.kind, ticks);
  if (counts_.first_time == 0) counts_.first_time = now_;
  // The process died in it, and the report says so.
  if (trace::is_call(record.kind) && as<trace::CallHeader>(record).end == 0) {
    retain(record);
    return;
  }
  switch (record.kind) {
    case RecordKind::kAllocation:
      return add_allocation(as<trace::Allocation>(record), writer);
    case RecordKind::kFree:
      return add_free(as<trace::Free>(record), writer);
    case RecordKind::kBlock:
      return add_block(as<trace::Block>(record), writer);
    case RecordKind::kCopy:
      return add_copy(as<trace::Copy>(record));
    case RecordKind::kSet:
      return add_set(as<trace::Set>(record));
    case RecordKind::kMapping:
      return add_mapping(as<trace::Mapping>(record));
    case RecordKind::kPool:
      return add_pool_call(as<trace::Pool>(record));
    case RecordKind::kContextCall:
      return add_context_call(as<trace::ContextCall>(record));
    case RecordKind::kGraph:
      return add_graph(as<trace::Graph>(record));
    case RecordKind::kImport:
      return add_import(as<trace::Import>(record));
    case RecordKind::kRange:
    case RecordKind::kOtherCall:
      return count_only(record);
    case RecordKind::kThread:
      return add_thread(as<trace::Thread>(record), writer);
    default:
      return add_other(record, writer);
  }
}

// Everything that is no call and no block.
void Compaction::add_other(const trace::RecordHeader& record, std::uint32_t writer) noexcept {
  using trace::RecordKind;
  switch (record.kind) {
    case RecordKind::kTotals:
      return add_totals(as<trace::Totals>(record));
    case RecordKind::kPeak:
      return add_peak(as<trace::Peak>(record));
    case RecordKind::kPeakHolder:
      return add_peak_holder(as<trace::PeakHolder>(record));
    case RecordKind::kCheckpoint:
      return add_checkpoint(as<trace::Checkpoint>(record));
    case RecordKind::kRefusedFree:
      return count_refused(as<trace::RefusedFree>(record));
    case RecordKind::kRecentFree:
      return add_recent_free(as<trace::RecentFree>(record));
    case RecordKind::kMemorySample:
      return add_sample(as<trace::MemorySample>(record));
    case RecordKind::kPoolSample:
      return add_pool_sample(as<trace::PoolSample>(record), writer);
    case RecordKind::kClock: {
      if (!samples_.add(retained_, record, 0)) failed_ = true;
      return;
    }
    case RecordKind::kActivityClock: {
      const auto& clock = as<trace::ActivityClock>(record);
      const std::uint64_t source = (std::uint64_t{clock.library} << 32) | clock.epoch;
      if (!samples_.add(retained_, record, source)) failed_ = true;
      return;
    }
    case RecordKind::kActivityCall:
    case RecordKind::kActivityCopy:
    case RecordKind::kActivitySet:
    case RecordKind::kActivityMemory:
    case RecordKind::kActivityPool:
    case RecordKind::kActivityManaged:
    case RecordKind::kActivityOverhead:
    case RecordKind::kActivityKernel: {
      // The calls that they would be joined to are gone, too; the report says how many there were.
      ++counts_.activity_records;
      return count_gone(record);
    }
    case RecordKind::kActivityDropped:
      return add_dropped(as<trace::ActivityDropped>(record));
    case RecordKind::kAnnotation:
      return add_annotation(as<trace::Annotation>(record));
    case RecordKind::kTensor:
      return add_tensor(as<trace::Tensor>(record));
    case RecordKind::kName: {
      const auto& name = as<trace::Name>(record);
      if (text_of(name) == trace::kLeaksFromHere) leaks_mark_name_ = name.id;
      break;
    }
    case RecordKind::kMark: {
      if (as<trace::Mark>(record).mark == trace::MarkKind::kStopped)
        allocations_are_missing_ = true;
      break;
    }
    case RecordKind::kGap:
      return add_gap(as<trace::Gap>(record));
    case RecordKind::kContext: {
      if (!contexts_.announce(as<trace::Context>(record))) return count_gone(record);
      break;
    }
    default: {
      break;
    }
  }
  retain(record);
}

void Compaction::add_thread(const trace::Thread& thread, std::uint32_t writer) noexcept {
  const std::uint32_t stood_in = thread.writer != 0 ? thread.writer : writer;
  const std::uint64_t key = (std::uint64_t{stood_in} << 32) + thread.thread_id + 1;
  if (threads_.find(key) != nullptr || threads_.size() >= kMaxThreads) {
    return count_gone(thread.record);
  }
  if (threads_.insert({key}) == nullptr) failed_ = true;
  const RecordId retained = retain(thread.record);
  if (retained != 0) {
    reinterpret_cast<trace::Thread&>(retained_.record(retained)).writer = stood_in;
  }
}

void Compaction::add_dropped(const trace::ActivityDropped& dropped) noexcept {
  if (dropped_ == 0) {
    dropped_ = retain(dropped.record);
    return;
  }
  auto& sum = reinterpret_cast<trace::ActivityDropped&>(retained_.record(dropped_));
  sum.by_cupti += dropped.by_cupti;
  sum.by_recorder += dropped.by_recorder;
  count_gone(dropped.record);
}

// All gaps are reported as one sum.
void Compaction::add_gap(const trace::Gap& gap) noexcept {
  if (gap.allocations != 0) allocations_are_missing_ = true;
  if (gap_ == 0) {
    gap_ = retain(gap.record);
    return;
  }
  auto& sum = reinterpret_cast<trace::Gap&>(retained_.record(gap_));
  sum.allocations += gap.allocations;
  sum.frees += gap.frees;
  sum.copies += gap.copies;
  sum.blocks += gap.blocks;
  sum.others += gap.others;
  sum.stacks += gap.stacks;
  sum.parts += gap.parts;
  count_gone(gap.record);
}

// Steps and ranges go with the detail. From where on leaks count must stay known: without it what
// lives from before would be a leak.
void Compaction::add_annotation(const trace::Annotation& annotation) noexcept {
  const bool is_leaks_mark = annotation.operation == trace::AnnotationOperation::kMark &&
                             annotation.name != 0 && annotation.name == leaks_mark_name_;
  if (!is_leaks_mark) return count_gone(annotation.record);
  drop(leaks_mark_);
  leaks_mark_ = retain(annotation.record);
}

// A name stays as long as its block does.
void Compaction::add_tensor(const trace::Tensor& tensor) noexcept {
  if (blocks_.find(tensor.address) == nullptr) return count_gone(tensor.record);
  const RetainedTensors::Added added = tensors_.add(retained_, tensor);
  if (added == RetainedTensors::Added::kKnown) count_gone(tensor.record);
  if (added == RetainedTensors::Added::kNoMemory) failed_ = true;
}

void Compaction::add_transfer(const trace::CallHeader& call, const GroupKey& key,
                              std::uint64_t bytes, bool has_time) noexcept {
  const std::uint32_t index = sums_.group_of(key);
  if (index == kNoIndex32) return;
  Group& group = sums_.group(index);
  count_gone(call.record);
  if (call.record.result != trace::kCudaSuccess) {
    ++group.failed;
    return;
  }
  if ((call.record.flags & trace::kFlagCaptured) != 0) return;
  ++group.count;
  group.bytes += bytes;
  if (bytes > group.largest_bytes) group.largest_bytes = bytes;
  if (has_time) group.host_ticks += ledger::host_ticks_of(call);
}

GroupKey Compaction::transfer_key(const trace::CallHeader& call) const noexcept {
  GroupKey key;
  key.kind = static_cast<std::uint32_t>(call.record.kind);
  key.caller = call.caller;
  key.stack = call.stack;
  key.context = call.context;
  key.api = call.record.api;
  key.flags = call.record.flags & (trace::kFlagByPointer | trace::kFlagAsynchronous);
  key.location = contexts_.device_of(call.context);
  if (key.location < 0) key.location = trace::kNoKnownDevice;
  return key;
}

ledger::Location Compaction::locate(std::uint64_t address, trace::EndType said,
                                    const trace::CallHeader& call) const noexcept {
  return ledger::locate(address_map_, address, said, contexts_.device_of(call.context),
                        allocations_are_missing_);
}

void Compaction::add_copy(const trace::Copy& call) noexcept {
  GroupKey key = transfer_key(call.call);
  const ledger::Location source = locate(call.source, call.source_type, call.call);
  const ledger::Location destination = locate(call.destination, call.destination_type, call.call);
  // What the call said matters where nothing was found.
  if (source.memory == ledger::MemoryClass::kUnknown) key.source_type = call.source_type;
  if (destination.memory == ledger::MemoryClass::kUnknown) {
    key.destination_type = call.destination_type;
  }
  key.source = ledger::place_of(source.memory);
  key.source_device = source.device;
  key.destination = ledger::place_of(destination.memory);
  key.destination_device = destination.device;
  // The parts of a batch share one call and so one time.
  add_transfer(call.call, key, call.bytes, call.part == 0);
}

void Compaction::add_set(const trace::Set& call) noexcept {
  GroupKey key = transfer_key(call.call);
  const ledger::Location destination = locate(call.destination, trace::EndType::kDevice, call.call);
  key.destination = ledger::place_of(destination.memory);
  key.destination_device = destination.device;
  add_transfer(call.call, key, call.bytes, true);
}

// As long as no graph has memory of its own, graphs change nothing that is counted. Once one has,
// every call about graphs stays; the sums here do not follow what launches allocate.
void Compaction::add_graph(const trace::Graph& call) noexcept {
  using trace::GraphOperation;
  const trace::RecordHeader& record = call.call.record;
  if (record.result == trace::kCudaSuccess && (call.operation == GraphOperation::kAddAllocation ||
                                               call.operation == GraphOperation::kAddFree)) {
    graph_memory_ = true;
  }
  if (graph_memory_) {
    retain(record);
    return;
  }
  if (call.operation == GraphOperation::kBeginCapture && open_capture_ == 0) {
    open_capture_ = retain(record);
    return;
  }
  if (call.operation == GraphOperation::kEndCapture) {
    drop(open_capture_);
    open_capture_ = 0;
  }
  count_only(record);
}

void Compaction::add_import(const trace::Import& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess) return count_only(record);
  switch (call.operation) {
    case trace::ImportOperation::kIpcOpen:
    case trace::ImportOperation::kPoolImportPointer:
    case trace::ImportOperation::kExternalMap:
    case trace::ImportOperation::kGraphicsPointer: {
      address_map_.set(call.address, call.bytes,
                       {ledger::MemoryClass::kDevice, contexts_.device_of(call.call.context)});
      break;
    }
    case trace::ImportOperation::kIpcExport:
    case trace::ImportOperation::kPoolExportPointer: {
      return count_only(record);
    }
    default: {
      break;
    }
  }
  retain(record);
}

void Compaction::add_sample(const trace::MemorySample& sample) noexcept {
  const std::uint64_t used = sample.total_bytes - sample.free_bytes;
  const std::uint64_t height =
      sample.source == trace::SampleSource::kNvmlProcess ? sample.process_bytes : used;
  // One that says nothing of the device does not stand for those that do.
  const bool is_empty = sample.source == trace::SampleSource::kNone;
  if (!samples_.add(retained_, sample.record, source_of(is_empty ? 1 : 0, sample.device), height)) {
    failed_ = true;
  }
  Physical* device = sums_.physical(sample.device);
  if (device == nullptr) return;
  device->add_sample(sample, now_, physical_bytes(*device), device->peak.time != 0);
}

}  // namespace gpumemtrace::preload
