// SPDX-License-Identifier: Apache-2.0
// Memory that belongs to CUDA graphs: by allocation and free nodes, captured or added by hand.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "analyzer/model/accounts/accounts.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

struct GraphAllocation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t group = 0;
};

// The effect of an executable graph's launch on memory: first the allocations, then the frees.
struct GraphMemory {
  std::vector<GraphAllocation> allocations;
  std::vector<std::uint64_t> frees;

  [[nodiscard]] bool empty() const { return allocations.empty() && frees.empty(); }
};

struct GraphExecutable {
  GraphMemory memory;
  CallSite instantiated_at;
  std::uint64_t time = 0;
};

// The model of graph memory: a node holds no memory by itself. A launch makes every allocation of
// its graph live, and then runs the graph's own free nodes, as if it ran at once. Memory that a
// graph allocates and does not free lives on until it is freed outside of the graph, even if the
// graph is destroyed (CUDA Programming Guide, "Graph Memory Nodes"); a launch while such memory is
// still live ends it and allocates it again.
class Graphs {
 public:
  void begin_capture(std::uint64_t stream) { captures_[stream] = GraphMemory{}; }
  void end_capture(std::uint64_t stream, std::uint64_t graph);
  void capture_allocation(std::uint64_t stream, const GraphAllocation& allocation) {
    capture_of(stream).allocations.push_back(allocation);
  }
  void capture_free(std::uint64_t stream, std::uint64_t address) {
    capture_of(stream).frees.push_back(address);
  }

  void add_allocation(std::uint64_t graph, const GraphAllocation& allocation) {
    graphs_[graph].allocations.push_back(allocation);
  }
  void add_free(std::uint64_t graph, std::uint64_t address) {
    graphs_[graph].frees.push_back(address);
  }
  void clone(std::uint64_t original, std::uint64_t copy);
  void instantiate(const trace::Graph& call, std::uint64_t now);
  void destroy(std::uint64_t graph) { graphs_.erase(graph); }
  void destroy_executable(std::uint64_t executable) { executables_.erase(executable); }
  // nullptr if a launch of the executable graph has no effect on memory.
  [[nodiscard]] const GraphExecutable* find_executable(std::uint64_t executable) const;
  template <class Visit>
  void for_each_executable(Visit&& visit) const {
    for (const auto& [handle, executable] : executables_) visit(executable);
  }

 private:
  [[nodiscard]] GraphMemory& capture_of(std::uint64_t stream);

  // open captures, by the stream on which they began
  std::map<std::uint64_t, GraphMemory> captures_;
  std::unordered_map<std::uint64_t, GraphMemory> graphs_;
  // executable graphs that allocate or free memory
  std::map<std::uint64_t, GraphExecutable> executables_;
};

}  // namespace gpumemtrace::analyzer
