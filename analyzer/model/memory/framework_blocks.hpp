// SPDX-License-Identifier: Apache-2.0
// The framework's blocks as they come and go, and the segments that they show.
#pragma once

#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

class FrameworkBlocks {
 public:
  explicit FrameworkBlocks(ProcessMemory& memory) : memory_(memory) {}

  // Returns the group that the block counts in.
  std::uint32_t add(const trace::Block& block, Phase phase);
  void remove(const trace::Block& block);

 private:
  ProcessMemory& memory_;
};

}  // namespace gpumemtrace::analyzer
