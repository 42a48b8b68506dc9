// SPDX-License-Identifier: Apache-2.0
// Live memory by address, memory that ended with its context, and the meaning of a free.
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

// The effect of a call that frees.
enum class FreeMeaning : std::uint8_t {
  kNothing,
  kReleasesHandle,  // drops a reference of physical memory
  kRefused,
  kCaptured,   // into a graph
  kTakesBack,  // ends the allocation at the address, at once
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
  bool has_group = false;     // the allocation that was there is known
  bool has_freed_at = false;  // and so is the call that freed it, or ended its context
  std::uint32_t group = 0;
  CallSite freed_at;
  std::uint64_t bytes = 0;         // of the live allocation there
  std::uint64_t offset_bytes = 0;  // kInsideLive: from the start of the allocation
};

// - One map for all free functions: cuMemFree also frees pool, managed and pitched memory, and
//   cuMemFreeAsync what cuMemAlloc gave out.
// - Handles of arrays and of imported memory have their own key spaces: they are no addresses.
// - Entry has the members `address`, `bytes` and `group`, which says who allocated it.
// - Pointers to entries are valid until the next change.
template <class Entry, template <class> class Array, std::size_t kSparseSlots = 0>
class LiveMemory {
 public:
  enum class Space : std::uint8_t { kAddresses, kArrays, kImports };

  // An allocation that the end of its context ended: it holds no memory any more.
  struct Ended {
    std::uint64_t address = 0;
    Entry entry;
    Teardown teardown;
  };

  [[nodiscard]] static constexpr Space space_of(trace::MemoryKind memory) {
    return is_array(memory) ? Space::kArrays : Space::kAddresses;
  }
  [[nodiscard]] Entry* find(Space space, std::uint64_t address) { return map(space).find(address); }
  // A slot for an address that is not live; nullptr without memory.
  [[nodiscard]] Entry* add(Space space, std::uint64_t address) { return map(space).add(address); }
  // False if nothing is live at the address; else `removed` is the entry.
  [[nodiscard]] bool remove(Space space, std::uint64_t address, Entry& removed) {
    return map(space).erase(address, removed);
  }

  // Ends all entries for which `belongs` is true; calls ended(entry, the one that ended earlier at
  // its address or nullptr) for each when it is no longer live, in the order of addresses. False if
  // there is no memory.
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
  // The program freed memory that the end of a context had ended before. False if none had.
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
  // The driver allocation that contains the address, or nullptr. Walks through all of them.
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
