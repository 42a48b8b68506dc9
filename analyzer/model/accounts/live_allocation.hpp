// SPDX-License-Identifier: Apache-2.0
// An allocation as the model keeps it, while it is live and after its end.
#pragma once

#include <cstdint>

#include "analyzer/model/accounts/block_use.hpp"

namespace gpumemtrace::analyzer {

// Live memory: an allocation, a framework block, a piece of physical memory, or a mapping.
struct LiveAllocation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t born = 0;   // model time, never 0
  std::uint32_t group = 0;  // index of the group of its call site (Accounts::group)
  // driver memory, mappings and blocks: id of the framework's segment, 0 if none; pool memory:
  // index of the pool
  std::uint32_t link = 0;
};

// An allocation that ended, with its use if it was a block of the framework.
struct ReleasedAllocation {
  LiveAllocation entry;
  BlockUse use;
  std::uint64_t end = 0;  // model time of its end; 0 = still live
};

}  // namespace gpumemtrace::analyzer
