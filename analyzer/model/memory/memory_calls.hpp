// SPDX-License-Identifier: Apache-2.0
// The effect of calls that allocate and free memory by address or handle, including those of the
// framework and those that end contexts.
#pragma once

#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

class MemoryCalls {
 public:
  explicit MemoryCalls(ProcessMemory& memory) : memory_(memory) {}

  [[nodiscard]] GroupKey key_of(const trace::Allocation& call);
  // A call that got no memory. True if it is a shortage of a kind that has no snapshot yet: the
  // caller may then pass one to OutOfMemory::set_snapshot().
  [[nodiscard]] bool fail(const trace::Allocation& call, const GroupKey& key);
  // A call that a graph was built from: the graph's launch hands the memory out.
  void capture(const trace::Allocation& call, GroupKey key);
  // `group` is that of the key.
  void allocate(const trace::Allocation& call, const GroupKey& key, std::uint32_t group);
  // Calls before(space) if the call takes back memory at once, before it does.
  template <class Before>
  void free(const trace::Free& call, Before&& before);
  // The framework hands out a block, which may show a new segment. Returns the group that the block
  // counts in.
  std::uint32_t add(const trace::Block& block, Phase phase);
  void remove(const trace::Block& block);
  // Opens or ends a context; memory ends with it.
  void apply(const trace::ContextCall& call);

 private:
  void refuse(const trace::Free& call);
  void take_back(const trace::Free& call);

  ProcessMemory& memory_;
};

template <class Before>
void MemoryCalls::free(const trace::Free& call, Before&& before) {
  switch (ledger::meaning_of(call)) {
    case ledger::FreeMeaning::kNothing:
      return;
    case ledger::FreeMeaning::kReleasesHandle:
      return memory_.release_handle(call.address, &call.call);
    case ledger::FreeMeaning::kRefused:
      return refuse(call);
    case ledger::FreeMeaning::kCaptured:
      return memory_.graphs.capture_free(call.stream, call.address);
    case ledger::FreeMeaning::kTakesBack: {
      before(Memory::space_of(call.memory));
      return take_back(call);
    }
  }
}

}  // namespace gpumemtrace::analyzer
