// SPDX-License-Identifier: Apache-2.0
// Live memory by address, memory that ended with its context, and the effect of a free on both.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trace/ledger/call_site.hpp"
#include "trace/ledger/contexts.hpp"
#include "trace/ledger/flat_map.hpp"
#include "trace/ledger/levels.hpp"
#include "trace/ledger/mapped_array.hpp"
#include "trace/ledger/recent_frees.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

using trace::FreedWhat;

// The effect of a call that frees memory.
enum class FreeMeaning : std::uint8_t {
  kNothing,
  kReleasesHandle,  // drops a reference to physical memory
  kRefused,
  kCaptured,   // the free was captured into a CUDA graph
  kTakesBack,  // ends the allocation at the address at once
};

[[nodiscard]] constexpr FreeMeaning meaning_of(const trace::Free& call) {
  const trace::RecordHeader& record = call.call.record;
  const bool succeeded = record.result == trace::kCudaSuccess;
  if (call.address == 0) return FreeMeaning::kNothing;
  if (is_physical(call.memory)) {
    return succeeded ? FreeMeaning::kReleasesHandle : FreeMeaning::kNothing;
  }
  if (!succeeded && !trace::is_error_of_another_call(record.result)) return FreeMeaning::kRefused;
  const bool is_captured = (record.flags & trace::kFlagCaptured) != 0;
  return is_captured ? FreeMeaning::kCaptured : FreeMeaning::kTakesBack;
}

// The reason why the driver refused a free.
struct Refusal {
  FreedWhat what = FreedWhat::kNothingKnown;
  bool has_group = false;  // the allocation that is or was at the address is known
  // the call that freed the allocation at the address, or ended its context, is known
  bool has_freed_at = false;
  std::uint32_t group = 0;
  CallSite freed_at;
  std::uint64_t bytes = 0;         // size of the live allocation at the address
  std::uint64_t offset_bytes = 0;  // kInsideLive: bytes from the start of the allocation
};

// - One map holds the memory of all allocation functions: cuMemFree also frees pool, managed and
//   pitched memory, and cuMemFreeAsync frees memory of cuMemAlloc.
// - Handles of arrays and of imported memory have their own key spaces: they are no addresses.
// - Entry has the members `address`, `bytes` and `group`: the group of allocations that it belongs
//   to, which have the call site in common.
// - Pointers to entries are valid until the next change.
template <class Entry, template <class> class Array, std::size_t kSparseSlots = 0>
class LiveMemory {
 public:
  enum class Space : std::uint8_t { kAddresses, kArrays, kImports };

  // An allocation that ended with its context: it holds no memory any more.
  struct Ended {
    std::uint64_t address = 0;
    Entry entry;
    Teardown teardown;
  };

  [[nodiscard]] static constexpr Space space_of(trace::MemoryKind memory) {
    return is_array(memory) ? Space::kArrays : Space::kAddresses;
  }
  [[nodiscard]] Entry* find(Space space, std::uint64_t address) { return map(space).find(address); }
  // Adds an entry for an address that is not live; nullptr without memory.
  [[nodiscard]] Entry* add(Space space, std::uint64_t address) { return map(space).add(address); }
  // Moves the entry at the address into `removed`; false if nothing is live there.
  [[nodiscard]] bool remove(Space space, std::uint64_t address, Entry& removed) {
    return map(space).erase(address, removed);
  }

  // Ends all entries for which `belongs` is true, in the order of addresses. For each of them, once
  // it is not live, calls visit(entry, older): `older` is an entry that ended earlier at the same
  // address, or nullptr. False if there is no memory.
  template <class Belongs, class Visit>
  [[nodiscard]] bool end_all(Belongs&& belongs, const Teardown& teardown, Visit&& visit) {
    bool has_memory = true;
    for (const Space space : {Space::kAddresses, Space::kArrays}) {
      MappedArray<std::uint64_t> addresses;
      map(space).for_each([&](const Entry& entry) {
        if (belongs(entry)) has_memory &= addresses.push(entry.address);
      });
      std::sort(addresses.begin(), addresses.end());
      for (const std::uint64_t address : addresses) {
        Ended ended{address, {}, teardown};
        (void)remove(space, address, ended.entry);
        Ended older;
        const bool was_there = ended_.erase(address, older);
        has_memory &= ended_.insert(ended) != nullptr;
        visit(ended.entry, was_there ? &older : nullptr);
      }
    }
    return has_memory;
  }
  // Forgets memory that had ended with its context, because the program frees it now. False if
  // there was none at the address.
  [[nodiscard]] bool forget_ended(std::uint64_t address) {
    Ended ended;
    return ended_.erase(address, ended);
  }

  // Remembers the call that freed the memory.
  void remember_free(const Entry& freed, const CallSite& site) {
    recent_frees_.add({freed.address, freed.group, site});
  }
  void restore_free(const RecentFrees::Entry& entry) { recent_frees_.add(entry); }
  [[nodiscard]] const RecentFrees& recent_frees() const { return recent_frees_; }

  // Finds the present or former allocation at the address of a free that the driver refused.
  [[nodiscard]] Refusal explain_refused(Space space, std::uint64_t address) {
    Refusal refusal;
    const auto was_of = [&](std::uint32_t group, FreedWhat what) {
      refusal.what = what;
      refusal.has_group = true;
      refusal.group = group;
    };
    if (const Entry* const live = find(space, address)) {
      was_of(live->group, FreedWhat::kLiveMemory);
      refusal.bytes = live->bytes;
    } else if (const RecentFrees::Entry* const before = recent_frees_.find(address)) {
      was_of(before->group, FreedWhat::kFreedBefore);
      refusal.has_freed_at = true;
      refusal.freed_at = before->freed_at;
    } else if (const Ended* const ended = ended_.find(address)) {
      was_of(ended->entry.group, FreedWhat::kEndedBefore);
      refusal.has_freed_at = true;
      refusal.freed_at = ended->teardown.site;
    } else if (const Entry* const around = find_containing(address)) {
      was_of(around->group, FreedWhat::kInsideLive);
      refusal.offset_bytes = address - around->address;
    }
    return refusal;
  }
  // The driver allocation that contains the address, or nullptr. Searches all of them, one by one.
  [[nodiscard]] Entry* find_containing(std::uint64_t address) {
    std::uint64_t base = 0;
    addresses_.for_each([&](const Entry& entry) {
      if (entry.address <= address && address - entry.address < entry.bytes) base = entry.address;
    });
    return addresses_.find(base);
  }

  template <class Visit>
  void for_each(Space space, Visit&& visit) const {
    const_cast<LiveMemory*>(this)->map(space).for_each(visit);
  }
  template <class Visit>
  void for_each_ended(Visit&& visit) const {
    ended_.for_each(visit);
  }

 private:
  using Map = FlatMap<Entry, &Entry::address, Array, kSparseSlots>;

  [[nodiscard]] Map& map(Space space) {
    return space == Space::kAddresses ? addresses_ : space == Space::kArrays ? arrays_ : imports_;
  }

  Map addresses_;
  Map arrays_;
  Map imports_;
  FlatMap<Ended, &Ended::address, Array, kSparseSlots> ended_;
  RecentFrees recent_frees_;
};

}  // namespace gpumemtrace::ledger
