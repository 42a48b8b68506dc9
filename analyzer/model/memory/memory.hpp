// SPDX-License-Identifier: Apache-2.0
// The live memory of one process by address: everything that the driver handed out except physical
// memory handles (ledger::VirtualMemory) and the framework's blocks (framework.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/model/accounts/accounts.hpp"
#include "trace/ledger/live_memory.hpp"

namespace gpumemtrace::analyzer {

using ledger::EndedBy;
using ledger::Teardown;
using trace::FreedWhat;

using LiveMap = FlatMap<LiveAllocation, &LiveAllocation::address>;

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
  void add_restored(std::uint64_t more_count, std::uint64_t more_bytes) {
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

// Every change is counted in the accounts.
class Memory {
 public:
  using Live = ledger::LiveMemory<LiveAllocation, HeapArray, kSparseSlots>;
  using Space = Live::Space;
  using Ended = Live::Ended;  // still reported

  explicit Memory(Accounts& accounts) : accounts_(accounts) {}

  [[nodiscard]] static constexpr Space space_of(trace::MemoryKind memory) {
    return Live::space_of(memory);
  }
  [[nodiscard]] LiveAllocation* find(Space space, std::uint64_t address) {
    return live_.find(space, address);
  }
  // The address must not be live.
  void add(Space space, const LiveAllocation& entry);
  // False if nothing is live at the address; else `removed` is the allocation.
  [[nodiscard]] bool remove(Space space, std::uint64_t address, Accounts::End end,
                            LiveAllocation& removed);

  // Ends all for which `belongs` is true, with their context. Returns them by space and address.
  template <class Belongs>
  std::vector<LiveAllocation> end_all(Belongs&& belongs, const Teardown& teardown) {
    std::vector<LiveAllocation> all;
    (void)live_.end_all(belongs, teardown, [&](const LiveAllocation& ended, const Ended* older) {
      count_ended(ended, older);
      all.push_back(ended);
    });
    return all;
  }
  // The program freed what a teardown had ended before: no leak.
  [[nodiscard]] bool forget_ended(std::uint64_t address) { return live_.forget_ended(address); }

  // Remembers a free to explain a second free of the address.
  void remember_free(const LiveAllocation& freed, const CallSite& site) {
    live_.remember_free(freed, site);
  }
  void restore_free(const ledger::RecentFrees::Entry& entry) { live_.restore_free(entry); }
  [[nodiscard]] ledger::Refusal explain_refused(Space space, std::uint64_t address) {
    return live_.explain_refused(space, address);
  }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Space space : {Space::kAddresses, Space::kArrays, Space::kImports}) {
      live_.for_each(space, visit);
    }
  }
  template <class Visit>
  void for_each_import(Visit&& visit) const {
    live_.for_each(Space::kImports, visit);
  }
  template <class Visit>
  void for_each_ended(Visit&& visit) const {
    live_.for_each_ended(visit);
  }
  // Ended allocations whose address was handed out again since, by group and reason.
  [[nodiscard]] const std::map<std::pair<std::uint32_t, EndedBy>, Tally>& replaced_ended() const {
    return replaced_ended_;
  }
  // The driver allocation that contains the address, or nullptr. Walks through all of them.
  [[nodiscard]] LiveAllocation* find_containing(std::uint64_t address) {
    return live_.find_containing(address);
  }
  // Changes with every add and remove.
  [[nodiscard]] std::uint64_t version() const { return version_; }

 private:
  void count_ended(const LiveAllocation& ended, const Ended* older);

  Accounts& accounts_;
  Live live_;
  std::map<std::pair<std::uint32_t, EndedBy>, Tally> replaced_ended_;
  std::uint64_t version_ = 0;
};

using EndedAllocation = Memory::Ended;

}  // namespace gpumemtrace::analyzer
