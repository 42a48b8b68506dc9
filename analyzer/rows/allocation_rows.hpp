// SPDX-License-Identifier: Apache-2.0
// Allocations one by one, for exports that draw or list each of them.
#pragma once

#include "analyzer/rows/site.hpp"

namespace gpumemtrace::analyzer::rows {

// Memory of the level `mapping` is address space that physical memory was mapped to.
struct Allocation {
  OptionalText device;
  Level level = Level::kDriver;
  Kind kind = Kind::kDevice;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t start_ns = 0;
  OptionalNumber end_ns;  // none: it lived to the end of the trace
  Category category = Category::kUnknown;
  OptionalText layers;  // as of a holder
  OptionalText owner;
  OptionalText stack;  // id of a row of stacks[]

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("device", self.device);
    v("level", self.level);
    v("kind", self.kind);
    v("address", self.address);
    v("bytes", self.bytes);
    v("start_ns", self.start_ns);
    v("end_ns", self.end_ns);
    v("category", self.category);
    v("module", self.layers);
    v("owner", self.owner);
    v("stack", self.stack);
  }
};

// Of one process, in the order in which they began.
struct AllocationHistory {
  std::string process;
  OptionalNumber complete_from_ns;  // of what ended before, not all is there; none: all is
  std::vector<Allocation> allocations;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("process", self.process);
    v("complete_from_ns", self.complete_from_ns);
    v("allocations", self.allocations);
  }
};

}  // namespace gpumemtrace::analyzer::rows
