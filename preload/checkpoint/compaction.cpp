// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/compaction.hpp"

#include <string.h>

#include <algorithm>
#include <string_view>

#include "trace/file_layout.hpp"
#include "trace/order.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kMaxThreads = 4096;

// The text at the end of the record, without the zeros that fill its last word.
template <class Record>
std::string_view text_of(const Record& record) noexcept {
  const std::size_t bytes = record.record.words * trace::kWordBytes - sizeof record;
  const auto* const text = reinterpret_cast<const char*>(&record + 1);
  return {text, strnlen(text, bytes)};
}

}  // namespace

void Compaction::add(const trace::RecordHeader& record, std::uint32_t writer,
                     std::uint64_t ticks) noexcept {
  using trace::RecordKind;
  records_.ticks = ticks;
  records_.writer = writer;
  records_.now = trace::next_model_time(records_.now, record.kind, ticks);
  if (records_.counts.first_time == 0) records_.counts.first_time = records_.now;
  if (!waits_.empty() && is_event(record.kind)) end_wait();
  // A call without an end time is retained: the process died in that call, and the report says so.
  if (trace::is_call(record.kind) && trace::as<trace::OtherCall>(record).call.end == 0) {
    records_.retain(record);
    return;
  }
  // CUPTI's activity records are dropped, because the calls that they would be joined to are
  // compacted, too; the report has the number of dropped records.
  if (record.kind >= RecordKind::kActivityCall && record.kind <= RecordKind::kActivityKernel) {
    ++records_.counts.activity_records;
    return records_.count_compacted(record);
  }
  trace::dispatch(record, [this](const auto& typed) noexcept { apply(typed); });
}

void Compaction::apply(const trace::Name& name) noexcept {
  if (text_of(name) == trace::kLeaksFromHere) leaks_mark_name_ = name.id;
  records_.retain(name.record);
}

void Compaction::apply(const trace::ApiName& name) noexcept {
  const auto id = static_cast<std::uint16_t>(name.id);
  if (ledger::loads_code(text_of(name)) && !loading_apis_.push(id)) records_.has_failed = true;
  records_.retain(name.record);
}

void Compaction::apply(const trace::Device& device) noexcept {
  if (Physical* const physical = memory_.sums.physical(device.ordinal)) {
    physical->threads = std::uint64_t{device.multiprocessors} * device.threads_per_multiprocessor;
  }
  records_.retain(device.record);
}

void Compaction::apply(const trace::OtherCall& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  const bool loads_code = record.result == trace::kCudaSuccess &&
                          std::ranges::find(loading_apis_, record.api) != loading_apis_.end();
  if (loads_code) {
    memory_.driver_use.add_call(memory_.contexts.device_of(call.call.context),
                                ledger::DriverCause::kModules, ledger::site_of(call.call));
  }
  records_.count_compacted(record);
}

void Compaction::apply(const trace::Mark& mark) noexcept {
  if (mark.mark == trace::MarkKind::kStopped) allocations_are_missing_ = true;
  records_.retain(mark.record);
}

void Compaction::apply(const trace::Context& context) noexcept {
  if (!memory_.contexts.announce(context)) return records_.count_compacted(context.record);
  records_.retain(context.record);
}

// Retains the first record of each thread, or the first one that has the thread's name. In a
// checkpoint all records have the same writer, so the record keeps the thread's own writer in a
// field.
void Compaction::apply(const trace::Thread& thread) noexcept {
  const std::uint32_t own_writer = thread.writer != 0 ? thread.writer : records_.writer;
  const std::uint64_t key = (std::uint64_t{own_writer} << 32) + thread.thread_id + 1;
  const bool has_name = thread.record.words * trace::kWordBytes > sizeof thread;
  SeenThread* seen = threads_.find(key);
  const bool is_needed =
      seen == nullptr ? threads_.size() < kMaxThreads : has_name && !seen->has_name;
  if (!is_needed) return records_.count_compacted(thread.record);
  if (seen != nullptr) {
    records_.drop(seen->record);
  } else {
    seen = threads_.insert({key, own_writer, thread.thread_id});
  }
  const RecordId retained = records_.retain(thread.record);
  if (seen == nullptr || retained == 0) {
    records_.has_failed = true;
    return;
  }
  reinterpret_cast<trace::Thread&>(records_.retained.record(retained)).writer = own_writer;
  seen->record = retained;
  seen->has_name = has_name;
}

// Keeps the stack, but not its record: write() writes a new WaitingStack record for each thread
// that still waits for the autograd engine at the end of the compacted part.
void Compaction::apply(const trace::WaitingStack& wait) noexcept {
  records_.count_compacted(wait.record);
  for (Wait& known : waits_) {
    if (known.thread_id != wait.thread_id) continue;
    known.stack = wait.stack;
    return;
  }
  Wait begun{wait.thread_id, 0, wait.stack};
  threads_.for_each([&](const SeenThread& thread) noexcept {
    if (thread.thread_id == wait.thread_id) begun.writer = thread.writer;
  });
  if (!waits_.push(begun)) records_.has_failed = true;
}

void Compaction::end_wait() noexcept {
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    if (waits_[i].writer == records_.writer) return waits_.erase(i, i + 1);
  }
}

void Compaction::apply(const trace::ActivityDropped& dropped) noexcept {
  if (dropped_ == 0) {
    dropped_ = records_.retain(dropped.record);
    return;
  }
  auto& sum = reinterpret_cast<trace::ActivityDropped&>(records_.retained.record(dropped_));
  sum.by_cupti += dropped.by_cupti;
  sum.by_recorder += dropped.by_recorder;
  records_.count_compacted(dropped.record);
}

// Adds all gaps up in the first Gap record: the report shows only their sum.
void Compaction::apply(const trace::Gap& gap) noexcept {
  if (gap.allocations != 0) allocations_are_missing_ = true;
  if (gap_ == 0) {
    gap_ = records_.retain(gap.record);
    return;
  }
  auto& sum = reinterpret_cast<trace::Gap&>(records_.retained.record(gap_));
  sum.allocations += gap.allocations;
  sum.frees += gap.frees;
  sum.copies += gap.copies;
  sum.blocks += gap.blocks;
  sum.others += gap.others;
  sum.stacks += gap.stacks;
  sum.parts += gap.parts;
  records_.count_compacted(gap.record);
}

// Annotations of steps and ranges are dropped. The mark from which leaks count must stay: without
// the mark, all memory that was allocated before it would be a leak.
void Compaction::apply(const trace::Annotation& annotation) noexcept {
  const bool is_leaks_mark = annotation.operation == trace::AnnotationOperation::kMark &&
                             annotation.name != 0 && annotation.name == leaks_mark_name_;
  if (!is_leaks_mark) return records_.count_compacted(annotation.record);
  records_.drop(leaks_mark_);
  leaks_mark_ = records_.retain(annotation.record);
}

void Compaction::add_transfer(const trace::CallHeader& call, const trace::Totals& like,
                              std::uint64_t bytes, bool has_time) noexcept {
  const std::uint32_t index = memory_.sums.group_of(like);
  if (index == kNoIndex32) return;
  trace::Totals& totals = memory_.sums.group(index).totals;
  records_.count_compacted(call.record);
  if (call.record.result != trace::kCudaSuccess) {
    ++totals.failed;
    return;
  }
  if ((call.record.flags & trace::kFlagCaptured) != 0) return;
  ++totals.count;
  totals.bytes += bytes;
  if (bytes > totals.largest_bytes) totals.largest_bytes = bytes;
  if (has_time) totals.host_ticks += ledger::host_ticks_of(call);
}

trace::Totals Compaction::transfer_like(const trace::CallHeader& call) const noexcept {
  trace::Totals like = totals_like(call);
  like.record.flags = call.record.flags & (trace::kFlagByPointer | trace::kFlagAsynchronous);
  like.location = memory_.contexts.device_of(call.context);
  if (like.location < 0) like.location = trace::kNoKnownDevice;
  return like;
}

// Finds the memory in which an end of a copy lies; `stated_type`: the memory type that the call
// states.
ledger::Location Compaction::locate(std::uint64_t address, trace::EndType stated_type,
                                    const trace::CallHeader& call) const noexcept {
  return ledger::locate(memory_.copy_locations, address, stated_type,
                        memory_.contexts.device_of(call.context), allocations_are_missing_);
}

void Compaction::apply(const trace::Copy& call) noexcept {
  trace::Totals like = transfer_like(call.call);
  const ledger::Location source = locate(call.source, call.source_type, call.call);
  const ledger::Location destination = locate(call.destination, call.destination_type, call.call);
  // The memory type that the call states matters only if the address is not known.
  if (source.memory == ledger::MemoryClass::kUnknown) like.source_type = call.source_type;
  if (destination.memory == ledger::MemoryClass::kUnknown) {
    like.destination_type = call.destination_type;
  }
  like.source = ledger::place_of(source.memory);
  like.source_device = source.device;
  like.destination = ledger::place_of(destination.memory);
  like.destination_device = destination.device;
  // The copies of a batch are parts of one call, whose time is counted once.
  add_transfer(call.call, like, call.bytes, call.part == 0);
}

void Compaction::apply(const trace::Set& call) noexcept {
  trace::Totals like = transfer_like(call.call);
  const ledger::Location destination = locate(call.destination, trace::EndType::kDevice, call.call);
  like.destination = ledger::place_of(destination.memory);
  like.destination_device = destination.device;
  add_transfer(call.call, like, call.bytes, true);
}

// Samples of processes beyond kMostProcesses are kept as those of one process.
void Compaction::apply(const trace::ProcessSample& sample) noexcept {
  constexpr std::size_t kMostProcesses = 64;
  const std::uint64_t height = sample.bytes == trace::kBytesNotTold ? 0 : sample.bytes;
  const std::uint64_t source = source_of(sample.process_id, sample.device);
  const bool has_room = records_.samples.count_of(sample.record.kind) < kMostProcesses;
  const bool is_kept = has_room || records_.samples.has(sample.record.kind, source);
  records_.retain_sample(sample.record, is_kept ? source : source_of(0, sample.device), height);
  if (records_.in_checkpoint()) return;
  if (OwnCurves* const own = memory_.curves(sample.device)) own->sample(0, sample);
}

void Compaction::apply(const trace::Checkpoint& checkpoint) noexcept {
  records_.counts.folds += checkpoint.folds;
  records_.counts.records += checkpoint.records;
  records_.counts.events += checkpoint.events;
  records_.counts.order_repaired += checkpoint.order_repaired;
  records_.counts.live_address_allocated += checkpoint.live_address_allocated;
  records_.counts.inexact |= checkpoint.inexact;
  records_.counts.activity_records += checkpoint.activity_records;
  if (checkpoint.first_time != 0) {
    records_.counts.first_time = std::min(records_.counts.first_time, checkpoint.first_time);
  }
}

bool Compaction::write(std::uint64_t cut_ticks, const RecordSink& sink) noexcept {
  memory_.finish();
  if (failed()) return false;
  CheckpointOutput out(sink, cut_ticks);
  records_.retained.for_each(
      [&](const trace::RecordHeader& record) noexcept { out.put_as_it_is(record); });
  for (const Wait& wait : waits_) {
    trace::WaitingStack record;
    record.thread_id = wait.thread_id;
    record.stack = wait.stack;
    out.put(record);
  }
  sums_.write(out);
  memory_.driver_use.store([&](auto& record) noexcept { out.put(record); });
  for (trace::RefusedFree refused : memory_.refused_frees.rows()) out.put(refused);
  trace::Checkpoint checkpoint = records_.counts;
  ++checkpoint.folds;
  if (memory_.has_graph_memory) checkpoint.inexact = 1;
  out.put(checkpoint);
  return out.is_whole() && !failed();
}

}  // namespace gpumemtrace::preload
