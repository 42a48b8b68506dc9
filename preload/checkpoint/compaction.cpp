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

bool is_event(trace::RecordKind kind) noexcept {
  return trace::is_call(kind) || kind == trace::RecordKind::kBlock ||
         kind == trace::RecordKind::kFrameworkOom;
}

// The tail, without the zeros that fill its last word.
template <class Record>
std::string_view text_of(const Record& record) noexcept {
  const std::size_t bytes = record.record.words * trace::kWordBytes - sizeof record;
  const auto* const text = reinterpret_cast<const char*>(&record + 1);
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

void Compaction::add(const trace::RecordHeader& record, std::uint32_t writer,
                     std::uint64_t ticks) noexcept {
  using trace::RecordKind;
  ticks_ = ticks;
  writer_ = writer;
  now_ = trace::next_model_time(now_, record.kind, ticks);
  if (counts_.first_time == 0) counts_.first_time = now_;
  if (!waits_.empty() && is_event(record.kind)) end_wait();
  // The process died in the call, and the report says so.
  if (trace::is_call(record.kind) && trace::as<trace::OtherCall>(record).call.end == 0) {
    retain(record);
    return;
  }
  // The calls that they would be joined to are compacted, too; the report has their number.
  if (record.kind >= RecordKind::kActivityCall && record.kind <= RecordKind::kActivityKernel) {
    ++counts_.activity_records;
    return count_gone(record);
  }
  trace::dispatch(record, [this](const auto& typed) noexcept { apply(typed); });
}

void Compaction::retain_sample(const trace::RecordHeader& record, std::uint64_t source,
                               std::uint64_t height) noexcept {
  if (!samples_.add(retained_, record, source, height)) failed_ = true;
}

void Compaction::apply(const trace::Name& name) noexcept {
  if (text_of(name) == trace::kLeaksFromHere) leaks_mark_name_ = name.id;
  retain(name.record);
}

void Compaction::apply(const trace::ApiName& name) noexcept {
  const auto id = static_cast<std::uint16_t>(name.id);
  if (ledger::loads_code(text_of(name)) && !loading_apis_.push(id)) failed_ = true;
  retain(name.record);
}

void Compaction::apply(const trace::Device& device) noexcept {
  if (Physical* const physical = sums_.physical(device.ordinal)) {
    physical->threads = std::uint64_t{device.multiprocessors} * device.threads_per_multiprocessor;
  }
  retain(device.record);
}

void Compaction::add_driver_cause(std::int32_t device, ledger::DriverCause cause,
                                  const trace::CallHeader& call) noexcept {
  driver_use_.add_call(device, cause, ledger::site_of(call));
}

void Compaction::apply(const trace::OtherCall& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  const bool loads_code = record.result == trace::kCudaSuccess &&
                          std::ranges::find(loading_apis_, record.api) != loading_apis_.end();
  if (loads_code) {
    add_driver_cause(contexts_.device_of(call.call.context), ledger::DriverCause::kModules,
                     call.call);
  }
  count_gone(record);
}

void Compaction::apply(const trace::ContextLimits& limits) noexcept {
  retain_sample(limits.record, trace::number_of(limits.context), limits.stack_bytes);
  const Physical* const device = sums_.physical(limits.device);
  if (device != nullptr) driver_use_.set_limits(limits, device->threads);
}

void Compaction::apply(const trace::Mark& mark) noexcept {
  if (mark.mark == trace::MarkKind::kStopped) allocations_are_missing_ = true;
  retain(mark.record);
}

void Compaction::apply(const trace::Context& context) noexcept {
  if (!contexts_.announce(context)) return count_gone(context.record);
  retain(context.record);
}

void Compaction::apply(const trace::Thread& thread) noexcept {
  const std::uint32_t stood_in = thread.writer != 0 ? thread.writer : writer_;
  const std::uint64_t key = (std::uint64_t{stood_in} << 32) + thread.thread_id + 1;
  if (threads_.find(key) != nullptr || threads_.size() >= kMaxThreads) {
    return count_gone(thread.record);
  }
  if (threads_.insert({key, stood_in, thread.thread_id}) == nullptr) failed_ = true;
  const RecordId retained = retain(thread.record);
  if (retained != 0) {
    reinterpret_cast<trace::Thread&>(retained_.record(retained)).writer = stood_in;
  }
}

// Only waits that go on behind the cut matter there; write() writes them again.
void Compaction::apply(const trace::WaitingStack& wait) noexcept {
  count_gone(wait.record);
  for (Wait& known : waits_) {
    if (known.thread_id != wait.thread_id) continue;
    known.stack = wait.stack;
    return;
  }
  Wait begun{wait.thread_id, 0, wait.stack};
  threads_.for_each([&](const SeenThread& thread) noexcept {
    if (thread.thread_id == wait.thread_id) begun.writer = thread.writer;
  });
  if (!waits_.push(begun)) failed_ = true;
}

void Compaction::end_wait() noexcept {
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    if (waits_[i].writer == writer_) return waits_.erase(i, i + 1);
  }
}

void Compaction::apply(const trace::ActivityDropped& dropped) noexcept {
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
void Compaction::apply(const trace::Gap& gap) noexcept {
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

// Steps and ranges go with the detail. The mark from which leaks count must stay: without it all
// that was allocated before would be a leak.
void Compaction::apply(const trace::Annotation& annotation) noexcept {
  const bool is_leaks_mark = annotation.operation == trace::AnnotationOperation::kMark &&
                             annotation.name != 0 && annotation.name == leaks_mark_name_;
  if (!is_leaks_mark) return count_gone(annotation.record);
  drop(leaks_mark_);
  leaks_mark_ = retain(annotation.record);
}

// A name stays as long as its block does.
void Compaction::apply(const trace::Tensor& tensor) noexcept {
  if (blocks_.find(tensor.address) == nullptr) return count_gone(tensor.record);
  const RetainedTensors::Added added = tensors_.add(retained_, tensor);
  if (added == RetainedTensors::Added::kKnown) count_gone(tensor.record);
  if (added == RetainedTensors::Added::kNoMemory) failed_ = true;
}

void Compaction::add_transfer(const trace::CallHeader& call, const trace::Totals& like,
                              std::uint64_t bytes, bool has_time) noexcept {
  const std::uint32_t index = sums_.group_of(like);
  if (index == kNoIndex32) return;
  trace::Totals& totals = sums_.group(index).totals;
  count_gone(call.record);
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
  like.location = contexts_.device_of(call.context);
  if (like.location < 0) like.location = trace::kNoKnownDevice;
  return like;
}

ledger::Location Compaction::locate(std::uint64_t address, trace::EndType said,
                                    const trace::CallHeader& call) const noexcept {
  return ledger::locate(copy_locations_, address, said, contexts_.device_of(call.context),
                        allocations_are_missing_);
}

void Compaction::apply(const trace::Copy& call) noexcept {
  trace::Totals like = transfer_like(call.call);
  const ledger::Location source = locate(call.source, call.source_type, call.call);
  const ledger::Location destination = locate(call.destination, call.destination_type, call.call);
  // The call's own type matters if the address is not known.
  if (source.memory == ledger::MemoryClass::kUnknown) like.source_type = call.source_type;
  if (destination.memory == ledger::MemoryClass::kUnknown) {
    like.destination_type = call.destination_type;
  }
  like.source = ledger::place_of(source.memory);
  like.source_device = source.device;
  like.destination = ledger::place_of(destination.memory);
  like.destination_device = destination.device;
  // The parts of a batch share one call and so one time.
  add_transfer(call.call, like, call.bytes, call.part == 0);
}

void Compaction::apply(const trace::Set& call) noexcept {
  trace::Totals like = transfer_like(call.call);
  const ledger::Location destination = locate(call.destination, trace::EndType::kDevice, call.call);
  like.destination = ledger::place_of(destination.memory);
  like.destination_device = destination.device;
  add_transfer(call.call, like, call.bytes, true);
}

// As long as no graph has memory of its own, graphs change only their own number among the sums.
// Once one has, every call about graphs stays; the sums here do not follow the allocations of
// launches.
void Compaction::apply(const trace::Graph& call) noexcept {
  using trace::GraphOperation;
  const trace::RecordHeader& record = call.call.record;
  if (record.result == trace::kCudaSuccess && (call.operation == GraphOperation::kAddAllocation ||
                                               call.operation == GraphOperation::kAddFree)) {
    graph_memory_ = true;
  }
  if (record.result == trace::kCudaSuccess && call.operation == GraphOperation::kInstantiate) {
    add_driver_cause(contexts_.device_of(call.call.context), ledger::DriverCause::kGraphs,
                     call.call);
  }
  if (graph_memory_) {
    retain(record);
    return;
  }
  if (call.operation == GraphOperation::kInstantiate) return instantiate(call);
  if (call.operation == GraphOperation::kDestroyExecutable) destroy_executable(call);
  if (call.operation == GraphOperation::kBeginCapture && open_capture_ == 0) {
    open_capture_ = retain(record);
    return;
  }
  if (call.operation == GraphOperation::kEndCapture) {
    drop(open_capture_);
    open_capture_ = 0;
  }
  count_gone(record);
}

Compaction::GraphCount* Compaction::graph_count(std::int32_t device) noexcept {
  for (GraphCount& count : graph_counts_) {
    if (count.device == device) return &count;
  }
  if (!graph_counts_.push({device, 0, 0})) {
    failed_ = true;
    return nullptr;
  }
  return &graph_counts_[graph_counts_.size() - 1];
}

// The call stays as long as its graph is alive: the report shows at its line the memory that the
// driver took for it.
void Compaction::instantiate(const trace::Graph& call) noexcept {
  trace::Totals like = totals_like(call.call);
  like.location = contexts_.device_of(call.call.context);
  const std::uint32_t group = sums_.group_of(like);
  GraphCount* const count = graph_count(like.location);
  if (group == kNoIndex32 || count == nullptr) return;
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess || call.executable == 0) {
    ++sums_.group(group).totals.failed;
    return count_gone(record);
  }
  LiveGraph graph;
  if (executables_.erase(call.executable, graph)) end_graph(graph);  // its end was not seen
  graph = {call.executable, group, retain(record)};
  if (executables_.insert(graph) == nullptr) failed_ = true;
  count->most_live = std::max(count->most_live, ++count->live);
}

void Compaction::destroy_executable(const trace::Graph& call) noexcept {
  LiveGraph graph;
  const std::uint64_t handle = call.graph != 0 ? call.graph : call.executable;
  const bool is_known =
      call.call.record.result == trace::kCudaSuccess && executables_.erase(handle, graph);
  if (is_known) end_graph(graph);
}

void Compaction::end_graph(const LiveGraph& graph) noexcept {
  drop(graph.record);
  trace::Totals& totals = sums_.group(graph.group).totals;
  ++totals.count;
  GraphCount* const count = graph_count(totals.location);
  if (count != nullptr && count->live != 0) --count->live;
}

void Compaction::apply(const trace::Import& call) noexcept {
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess ||
      call.operation == trace::ImportOperation::kIpcExport ||
      call.operation == trace::ImportOperation::kPoolExportPointer) {
    return count_gone(record);
  }
  if (ledger::maps_device_memory(call.operation)) {
    copy_locations_.set(call.address, call.bytes,
                        {ledger::MemoryClass::kDevice, contexts_.device_of(call.call.context)});
  }
  retain(record);
}

// The first, the last and the highest sample of each source stay. The highest of NVML's numbers for
// processes is the one with most memory for this process; of the others, the one with most of the
// card in use.
void Compaction::apply(const trace::MemorySample& sample) noexcept {
  const std::uint64_t used = sample.total_bytes - sample.reserved_bytes - sample.free_bytes;
  const std::uint64_t height =
      sample.source == trace::SampleSource::kNvmlProcess ? sample.process_bytes : used;
  const auto source = static_cast<std::uint64_t>(sample.source);
  retain_sample(sample.record, source_of(source, sample.device), height);
  Physical* device = sums_.physical(sample.device);
  if (device == nullptr) return;
  device->add_sample(sample, now_, physical_bytes(*device), device->peak.time != 0);
  if (writer_ == trace::kCheckpointWriter) return;
  if (OwnCurves* const own = curves(sample.device)) own->sample(0, sample);
  if (sample.source != trace::SampleSource::kNvmlProcess) return;
  const std::uint64_t held_bytes = physical_bytes(*device) + rounding_.bytes(sample.device);
  driver_use_.sample(sample.device,
                     sample.process_bytes - std::min(sample.process_bytes, held_bytes));
}

// Processes beyond kMostProcesses are kept as one.
void Compaction::apply(const trace::ProcessSample& sample) noexcept {
  constexpr std::size_t kMostProcesses = 64;
  const std::uint64_t height = sample.bytes == trace::kBytesNotTold ? 0 : sample.bytes;
  const std::uint64_t source = source_of(sample.process_id, sample.device);
  const bool has_room = samples_.count_of(sample.record.kind) < kMostProcesses;
  const bool is_kept = has_room || samples_.has(sample.record.kind, source);
  retain_sample(sample.record, is_kept ? source : source_of(0, sample.device), height);
  if (writer_ == trace::kCheckpointWriter) return;
  if (OwnCurves* const own = curves(sample.device)) own->sample(0, sample);
}

}  // namespace gpumemtrace::preload
