// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/graphs.hpp"

namespace gpumemtrace::analyzer {

// A capture spreads from its first stream to other streams that wait for it, and the trace does not
// say to which. Nearly always only one capture is open; then the memory belongs to that capture.
GraphMemory& Graphs::capture_of(std::uint64_t stream) {
  const auto found = captures_.find(stream);
  if (found != captures_.end()) return found->second;
  if (!captures_.empty()) return captures_.begin()->second;
  return captures_[stream];
}

void Graphs::end_capture(std::uint64_t stream, std::uint64_t graph) {
  const auto found = captures_.find(stream);
  if (found == captures_.end()) return;
  if (graph != 0 && !found->second.empty()) {
    // A capture into an existing graph adds to its memory.
    GraphMemory& memory = graphs_[graph];
    const GraphMemory& captured = found->second;
    memory.allocations.insert(memory.allocations.end(), captured.allocations.begin(),
                              captured.allocations.end());
    memory.frees.insert(memory.frees.end(), captured.frees.begin(), captured.frees.end());
  }
  captures_.erase(found);
}

void Graphs::clone(std::uint64_t original, std::uint64_t copy) {
  const auto found = graphs_.find(original);
  if (found != graphs_.end()) graphs_.insert_or_assign(copy, GraphMemory(found->second));
}

void Graphs::instantiate(const trace::Graph& call, std::uint64_t now) {
  const auto found = graphs_.find(call.graph);
  if (found == graphs_.end()) return;
  executables_[call.executable] = {found->second, ledger::site_of(call.call), now};
}

const GraphExecutable* Graphs::find_executable(std::uint64_t executable) const {
  const auto found = executables_.find(executable);
  return found == executables_.end() ? nullptr : &found->second;
}

}  // namespace gpumemtrace::analyzer
