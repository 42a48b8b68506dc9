// SPDX-License-Identifier: Apache-2.0
// The effect of calls about CUDA graphs on memory.
#pragma once

#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

class GraphCalls {
 public:
  explicit GraphCalls(ProcessMemory& memory) : memory_(memory) {}

  // The call succeeded.
  void apply(const trace::Graph& call);

 private:
  void launch(const GraphMemory& graph);

  ProcessMemory& memory_;
};

}  // namespace gpumemtrace::analyzer
