// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/memory.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {

void Memory::add(Space space, const LiveAllocation& entry) {
  ++version_;
  LiveAllocation& live = map(space).add(entry.address);
  live.bytes = entry.bytes;
  live.born = entry.born;
  live.group = entry.group;
  live.link = entry.link;
  accounts_.add(entry.group, entry.bytes, entry.born);
}

bool Memory::remove(Space space, std::uint64_t address, Accounts::End end,
                    LiveAllocation& removed) {
  if (!map(space).erase(address, removed)) return false;
  ++version_;
  accounts_.remove(removed, end);
  return true;
}

void Memory::finish_ending(Space space, std::vector<LiveAllocation>& ended, std::size_t first,
                           const Teardown& teardown) {
  std::sort(ended.begin() + static_cast<std::ptrdiff_t>(first), ended.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  for (std::size_t i = first; i < ended.size(); ++i) {
    LiveAllocation removed;
    remove(space, ended[i].address, Accounts::End::kImplicit, removed);
    remember_ended({removed.address, removed, teardown});
  }
}

void Memory::remember_ended(const EndedAllocation& ended) {
  EndedAllocation older;
  if (ended_.erase(ended.address, older)) {
    replaced_ended_[{older.entry.group, older.teardown.reason}].add(older.entry.bytes,
                                                                    older.entry.born);
  }
  ended_.insert(ended);
}

bool Memory::forget_ended(std::uint64_t address) {
  EndedAllocation ended;
  return ended_.erase(address, ended);
}

LiveAllocation* Memory::find_containing(std::uint64_t address) {
  std::uint64_t base = 0;
  addresses_.for_each([&](const LiveAllocation& entry) {
    if (entry.address <= address && address - entry.address < entry.bytes) base = entry.address;
  });
  return addresses_.find(base);
}

}  // namespace gpumemtrace::analyzer
