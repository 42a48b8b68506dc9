// SPDX-License-Identifier: Apache-2.0
// What calls do to memory that hand it out and take it back by address or handle, and those that
// end contexts.
#pragma once

#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

class MemoryCalls {
 public:
  explicit MemoryCalls(ProcessMemory& memory) : memory_(memory) {}

  [[nodiscard]] GroupKey key_of(const trace::Allocation& call);
  // A call that got no memory. True where it is a shortage of a kind that has no snapshot yet: the
  // caller may then pass one to OutOfMemory::set_snapshot().
  [[nodiscard]] bool fail(const trace::Allocation& call, const GroupKey& key);
  // A call that a graph was built from: its launch hands the memory out.
  void capture(const trace::Allocation& call, GroupKey key);
  // `group` is that of the key.
  void allocate(const trace::Allocation& call, const GroupKey& key, std::uint32_t group);
  // Calls before(space) where the call takes back memory at once, before it does.
  template <class Before>
  void free(const trace::Free& call, Before&& before);
  // Opens or ends a context; memory ends with it.
  void apply(const trace::ContextCall& call);

 private:
  void refuse(const trace::Free& call, Memory::Space space);
  void take_back(const trace::Free& call, Memory::Space space);

  ProcessMemory& memory_;
};

template <class Before>
void MemoryCalls::free(const trace::Free& call, Before&& before) {
  if (call.address == 0) return;
  const trace::RecordHeader& record = call.call.record;
  const bool succeeded = record.result == trace::kCudaSuccess;
  if (ledger::is_physical(call.memory)) {
    if (succeeded) memory_.release_handle(call.address, &call.call);
    return;
  }
  const Memory::Space space = Memory::Live::space_of(call.memory);
  if (!succeeded && !trace::is_error_of_another_call(record.result)) return refuse(call, space);
  if ((record.flags & trace::kFlagCaptured) != 0) {
    return memory_.graphs.capture_free(call.stream, call.address);
  }
  before(space);
  take_back(call, space);
}

}  // namespace gpumemtrace::analyzer
