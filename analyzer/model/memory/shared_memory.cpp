// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/shared_memory.hpp"

namespace gpumemtrace::analyzer {

// Does nothing if the handle was exported before and its memory is live. If that memory has ended,
// the handle stands for new memory.
void SharedMemory::hand_out(std::uint64_t handle, const LiveAllocation& memory, std::uint64_t now) {
  const auto [known, added] = exported_by_handle_.try_emplace(handle, exported_.size());
  if (!added && exported_[known->second].end_time == 0) return;
  known->second = exported_.size();
  exported_by_born_.emplace(memory.born, exported_.size());
  exported_.push_back({.handle = handle, .group = memory.group, .time = now});
}

void SharedMemory::end_exported(std::uint64_t born, const std::optional<ledger::CallSite>& freed_at,
                                std::uint64_t now) {
  const auto [first, last] = exported_by_born_.equal_range(born);
  for (auto entry = first; entry != last; ++entry) {
    exported_[entry->second].end_time = now;
    exported_[entry->second].freed_at = freed_at;
  }
  exported_by_born_.erase(first, last);
}

void SharedMemory::open(std::uint64_t handle, bool is_of_pool, const LiveAllocation& memory) {
  open_[memory.address] = {.index = opened_.size()};
  opened_.push_back({handle, is_of_pool, memory.group, memory.bytes, memory.born});
}

void SharedMemory::open_again(std::uint64_t address) {
  const auto found = open_.find(address);
  if (found != open_.end()) ++found->second.calls;
}

bool SharedMemory::close(std::uint64_t address, std::uint64_t now) {
  const auto found = open_.find(address);
  if (found == open_.end()) return true;
  if (--found->second.calls != 0) return false;
  opened_[found->second.index].end_time = now;
  open_.erase(found);
  return true;
}

}  // namespace gpumemtrace::analyzer
