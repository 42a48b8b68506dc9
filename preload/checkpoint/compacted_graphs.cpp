// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/compacted_graphs.hpp"

#include <algorithm>

namespace gpumemtrace::preload {

// As long as no graph has memory of its own, graphs change only their own count among the sums.
// Once a graph has memory, every call about graphs is retained, because the sums do not follow the
// allocations of graph launches.
void CompactedGraphs::apply(const trace::Graph& call) noexcept {
  using trace::GraphOperation;
  const trace::RecordHeader& record = call.call.record;
  if (record.result == trace::kCudaSuccess && (call.operation == GraphOperation::kAddAllocation ||
                                               call.operation == GraphOperation::kAddFree)) {
    memory_.has_graph_memory = true;
  }
  if (record.result == trace::kCudaSuccess && call.operation == GraphOperation::kInstantiate) {
    memory_.driver_use.add_call(memory_.contexts.device_of(call.call.context),
                                ledger::DriverCause::kGraphs, ledger::site_of(call.call));
  }
  if (memory_.has_graph_memory) {
    records_.retain(record);
    return;
  }
  if (call.operation == GraphOperation::kInstantiate) return instantiate(call);
  if (call.operation == GraphOperation::kDestroyExecutable) destroy_executable(call);
  // A call that ends a capture ends it even if the call fails.
  if (call.operation == GraphOperation::kEndCapture) end_capture(call.stream);
  if (call.operation == GraphOperation::kBeginCapture && record.result == trace::kCudaSuccess) {
    return begin_capture(call);
  }
  records_.count_compacted(record);
}

// The beginning call is retained as long as its capture is open: memory that is captured after the
// checkpoint belongs to the graph of the capture on its stream.
void CompactedGraphs::begin_capture(const trace::Graph& call) noexcept {
  end_capture(call.stream);  // of an earlier capture, whose end was unseen
  if (!captures_.push({call.stream, records_.retain(call.call.record)})) records_.has_failed = true;
}

void CompactedGraphs::end_capture(std::uint64_t stream) noexcept {
  for (std::size_t i = 0; i < captures_.size(); ++i) {
    if (captures_[i].stream != stream) continue;
    records_.drop(captures_[i].record);
    return captures_.erase(i, i + 1);
  }
}

CompactedGraphs::Count* CompactedGraphs::count_of(std::int32_t device) noexcept {
  for (Count& count : counts_) {
    if (count.device == device) return &count;
  }
  if (!counts_.push({device, 0, 0})) {
    records_.has_failed = true;
    return nullptr;
  }
  return &counts_[counts_.size() - 1];
}

// The instantiating call is retained as long as its graph is alive: the report shows, at the call's
// line, the memory that the driver took for the graph.
void CompactedGraphs::instantiate(const trace::Graph& call) noexcept {
  trace::Totals like = totals_like(call.call);
  like.location = memory_.contexts.device_of(call.call.context);
  const std::uint32_t group = memory_.sums.group_of(like);
  Count* const count = count_of(like.location);
  if (group == kNoIndex32 || count == nullptr) return;
  const trace::RecordHeader& record = call.call.record;
  if (record.result != trace::kCudaSuccess || call.executable == 0) {
    ++memory_.sums.group(group).totals.failed;
    return records_.count_compacted(record);
  }
  Executable graph;
  // The end of an earlier graph with the same handle was unseen.
  if (executables_.erase(call.executable, graph)) end_graph(graph);
  graph = {call.executable, group, records_.retain(record)};
  if (executables_.insert(graph) == nullptr) records_.has_failed = true;
  count->most_live = std::max(count->most_live, ++count->live);
}

void CompactedGraphs::destroy_executable(const trace::Graph& call) noexcept {
  Executable graph;
  // The record of a call that destroys an executable graph has the handle in `graph`.
  const std::uint64_t handle = call.graph != 0 ? call.graph : call.executable;
  const bool is_known =
      call.call.record.result == trace::kCudaSuccess && executables_.erase(handle, graph);
  if (is_known) end_graph(graph);
}

void CompactedGraphs::end_graph(const Executable& graph) noexcept {
  records_.drop(graph.record);
  trace::Totals& totals = memory_.sums.group(graph.group).totals;
  ++totals.count;
  Count* const count = count_of(totals.location);
  if (count != nullptr && count->live != 0) --count->live;
}

// In the totals of graphs, largest_bytes is the highest number of graphs that were alive at once.
void CompactedGraphs::restore(const trace::Totals& totals) noexcept {
  Count* const count = count_of(totals.location);
  if (count != nullptr) count->most_live = std::max(count->most_live, totals.largest_bytes);
}

}  // namespace gpumemtrace::preload
