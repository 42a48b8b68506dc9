// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/graph_calls.hpp"

namespace gpumemtrace::analyzer {

void GraphCalls::apply(const trace::Graph& call) {
  Graphs& graphs = memory_.graphs;
  switch (call.operation) {
    case trace::GraphOperation::kAddAllocation: {
      const GroupKey key = memory_.key_of(call.call, Kind::kGraph, call.device);
      return graphs.add_allocation(call.graph,
                                   {call.address, call.bytes, memory_.accounts.group_of(key)});
    }
    case trace::GraphOperation::kAddFree:
      return graphs.add_free(call.graph, call.address);
    case trace::GraphOperation::kInstantiate:
      return graphs.instantiate(call, memory_.present.time);
    case trace::GraphOperation::kLaunch: {
      const GraphExecutable* executable = graphs.find_executable(call.graph);
      if (executable != nullptr) launch(executable->memory);
      return;
    }
    case trace::GraphOperation::kDestroyExecutable:
      return graphs.destroy_executable(call.graph != 0 ? call.graph : call.executable);
    case trace::GraphOperation::kDestroy:
      return graphs.destroy(call.graph);
    case trace::GraphOperation::kBeginCapture:
      return graphs.begin_capture(call.stream);
    case trace::GraphOperation::kEndCapture:
      return graphs.end_capture(call.stream, call.graph);
    case trace::GraphOperation::kClone:
      return graphs.clone(call.graph, call.executable);
    default:
      return;
  }
}

void GraphCalls::launch(const GraphMemory& graph) {
  const std::uint32_t writer = memory_.present.writer;
  for (const GraphAllocation& allocation : graph.allocations) {
    if (allocation.address == 0) continue;
    (void)memory_.take_back(Memory::Space::kAddresses, allocation.address, writer);
    memory_.hand_out(
        {allocation.address, allocation.bytes, memory_.present.time, allocation.group, 0},
        memory_.accounts.group(allocation.group).key);
    memory_.begin_next_moment();
  }
  for (const std::uint64_t address : graph.frees) {
    (void)memory_.take_back(Memory::Space::kAddresses, address, writer);
  }
}

}  // namespace gpumemtrace::analyzer
