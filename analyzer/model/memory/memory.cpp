// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/memory.hpp"

namespace gpumemtrace::analyzer {

void Memory::add(Space space, const LiveAllocation& entry) {
  ++version_;
  LiveAllocation& live = *live_.add(space, entry.address);
  live.bytes = entry.bytes;
  live.born = entry.born;
  live.group = entry.group;
  live.link = entry.link;
  accounts_.add(entry.group, entry.bytes, entry.born);
}

bool Memory::remove(Space space, std::uint64_t address, Accounts::End end,
                    LiveAllocation& removed) {
  if (!live_.remove(space, address, removed)) return false;
  ++version_;
  accounts_.remove(removed, end);
  return true;
}

void Memory::count_ended(const LiveAllocation& ended, const Ended* older) {
  ++version_;
  accounts_.remove(ended, Accounts::End::kImplicit);
  if (older == nullptr) return;
  replaced_ended_[{older->entry.group, older->teardown.reason}].add(older->entry.bytes,
                                                                    older->entry.born);
}

}  // namespace gpumemtrace::analyzer
