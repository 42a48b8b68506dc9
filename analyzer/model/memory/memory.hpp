// SPDX-License-Identifier: Apache-2.0
// What is live in one process by address: everything that the driver handed out except physical
// memory handles (model/virtual_memory.hpp) and what the framework made of it
// (model/framework.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/base/words.hpp"
#include "analyzer/model/accounts/accounts.hpp"

namespace gpumemtrace::analyzer {

using LiveMap = FlatMap<LiveAllocation, &LiveAllocation::address>;

// The end of a context, which ends what was allocated in it.
struct Teardown {
  EndedBy reason = EndedBy::kNothing;
  bool at_exit = false;  // after the process began to exit
  CallSite site;

  friend auto operator<=>(const Teardown&, const Teardown&) = default;
};

// An allocation that a teardown ended: it holds no memory any more and is still reported.
struct EndedAllocation {
  std::uint64_t address = 0;
  LiveAllocation entry;
  Teardown teardown;
};

// Number and bytes of alike allocations, and when the first and the last of them was made.
struct Tally {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_time = 0;
  std::uint64_t last_time = 0;

  void add(std::uint64_t more_bytes, std::uint64_t time) {
    if (count == 0 || time < first_time) first_time = time;
    if (time > last_time) last_time = time;
    ++count;
    bytes += more_bytes;
  }
  void add_told(std::uint64_t more_count, std::uint64_t more_bytes) {
    count += more_count;
    bytes += more_bytes;
  }
  void merge(const Tally& more) {
    if (count == 0 || (more.count != 0 && more.first_time < first_time)) {
      first_time = more.first_time;
    }
    if (more.last_time > last_time) last_time = more.last_time;
    count += more.count;
    bytes += more.bytes;
  }
};

// - One ledger for all free functions: cuMemFree also frees pool, managed and pitched memory, and
//   cuMemFreeAsync what cuMemAlloc gave out.
// - Handles of arrays and of imported memory have their own key spaces: they are no addresses.
class Memory {
 public:
  enum class Space { kAddresses, kArrays, kImports };

  explicit Memory(Accounts& accounts) : accounts_(accounts) {}

  [[nodiscard]] LiveAllocation* find(Space space, std::uint64_t address) {
    return map(space).find(address);
  }
  // The address must not be live.
  void add(Space space, const LiveAllocation& entry);
  // False where nothing is live at the address; else `removed` tells what was.
  bool remove(Space space, std::uint64_t address, Accounts::End end, LiveAllocation& removed);

  // Everything that `belongs` says ends with its context. Returns what ended, sorted by address.
  template <class Belongs>
  std::vector<LiveAllocation> end_all(Belongs&& belongs, const Teardown& teardown) {
    std::vector<LiveAllocation> ended;
    for (const Space space : {Space::kAddresses, Space::kArrays}) {
      const std::size_t first = ended.size();
      map(space).for_each([&](const LiveAllocation& entry) {
        if (belongs(entry)) ended.push_back(entry);
      });
      finish_ending(space, ended, first, teardown);
    }
    return ended;
  }
  [[nodiscard]] const EndedAllocation* find_ended(std::uint64_t address) const {
    return ended_.find(address);
  }
  // The program freed what a teardown had ended before: no leak.
  bool forget_ended(std::uint64_t address);

  template <class Visit>
  void for_each(Visit&& visit) const {
    addresses_.for_each(visit);
    arrays_.for_each(visit);
    imports_.for_each(visit);
  }
  template <class Visit>
  void for_each_import(Visit&& visit) const {
    imports_.for_each(visit);
  }
  template <class Visit>
  void for_each_ended(Visit&& visit) const {
    ended_.for_each(visit);
  }
  // Ended allocations whose address was handed out again since, by group and reason.
  [[nodiscard]] const std::map<std::pair<std::uint32_t, EndedBy>, Tally>& replaced_ended() const {
    return replaced_ended_;
  }
  // The driver allocation that contains the address, or nullptr. Walks through all of them.
  [[nodiscard]] LiveAllocation* find_containing(std::uint64_t address);
  // Changes with every add and remove.
  [[nodiscard]] std::uint64_t version() const { return version_; }

 private:
  [[nodiscard]] LiveMap& map(Space space) {
    return space == Space::kAddresses ? addresses_ : space == Space::kArrays ? arrays_ : imports_;
  }
  void finish_ending(Space space, std::vector<LiveAllocation>& ended, std::size_t first,
                     const Teardown& teardown);
  void remember_ended(const EndedAllocation& ended);

  Accounts& accounts_;
  LiveMap addresses_;
  LiveMap arrays_;
  LiveMap imports_;
  FlatMap<EndedAllocation, &EndedAllocation::address> ended_;
  std::map<std::pair<std::uint32_t, EndedBy>, Tally> replaced_ended_;
  std::uint64_t version_ = 0;
};

}  // namespace gpumemtrace::analyzer
