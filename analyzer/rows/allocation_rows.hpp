// SPDX-License-Identifier: Apache-2.0
// Allocations one by one, for exports that draw or list each of them.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// Memory of the level `mapping` is address space that physical memory was mapped to.
struct Allocation {
  OptionalDevice device;
  Level level = Level::kDriver;
  Kind kind = Kind::kDevice;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  // Bytes that the program asked its framework for; null if not known, or if it is no block
  OptionalNumber requested_bytes;
  std::optional<std::int64_t> stream;  // For a block: the framework's number of its stream
  OptionalNumber pool;                 // For a segment: the number of its private pool
  JobTime start_ns = 0;
  OptionalTime end_ns;  // null: it lived to the end of the trace
  Category category = Category::kUnknown;
  OptionalLayers layers;  // the layers that allocated it, as `module` of Holder
  OptionalName<Secret::kOwner> owner;
  OptionalStack stack;       // id of a row of stacks[]
  OptionalStack free_stack;  // the stack of the call that freed it: id of a row of stacks[]

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, device, level, kind, address, bytes);
    v.added("requested_bytes", self.requested_bytes);
    v.added("stream", self.stream);
    v.added("pool", self.pool);
    GPUMEMTRACE_KEYS(v, start_ns, end_ns, category);
    v("module", self.layers);
    GPUMEMTRACE_KEYS(v, owner, stack);
    v.added("free_stack", self.free_stack);
  }
};

// Allocations of one process, in the order in which they began.
struct AllocationHistory {
  ProcessId process;
  OptionalTime complete_from_ns;  // some that ended before this are missing; null: all are there
  std::vector<Allocation> allocations;

  GPUMEMTRACE_FIELDS(process, complete_from_ns, allocations)
};

}  // namespace gpumemtrace::analyzer::rows
