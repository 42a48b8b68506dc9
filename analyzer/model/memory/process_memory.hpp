// SPDX-License-Identifier: Apache-2.0
// All memory of one process, and the common parts of the calls about it.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/accounts/devices.hpp"
#include "analyzer/model/accounts/present_record.hpp"
#include "analyzer/model/accounts/run_statistics.hpp"
#include "analyzer/model/memory/collected.hpp"
#include "analyzer/model/memory/framework.hpp"
#include "analyzer/model/memory/geometry.hpp"
#include "analyzer/model/memory/graphs.hpp"
#include "analyzer/model/memory/memory.hpp"
#include "analyzer/model/memory/nccl_memory.hpp"
#include "analyzer/model/memory/out_of_memory.hpp"
#include "analyzer/order/merge.hpp"
#include "trace/ledger/contexts.hpp"
#include "trace/ledger/copy_locations.hpp"
#include "trace/ledger/driver_rounding.hpp"
#include "trace/ledger/pools.hpp"
#include "trace/ledger/refused_frees.hpp"
#include "trace/ledger/targets.hpp"
#include "trace/ledger/virtual_memory.hpp"

namespace gpumemtrace::analyzer {

using ledger::Pools;
using ledger::PoolState;
using ledger::PoolSums;

// The framework's segment in a reservation; 0 if no block was seen there.
struct SegmentTag {
  std::uint32_t id = 0;

  [[nodiscard]] bool is_segment() const { return id != 0; }
};

// The link of an entry is the segment that it became a part of.
using VirtualMemory = ledger::VirtualMemory<LiveAllocation, SegmentTag>;

struct ProcessMemory;

// Follows changes of virtual memory in the accounts and in segments. Mappings have accounts of
// their own level, so that a past peak knows its mappings.
class MappingOwner {
 public:
  // `freed_by`: the call, if it is the present record.
  explicit MappingOwner(ProcessMemory& memory, const trace::CallHeader* freed_by = nullptr)
      : memory_(memory), freed_by_(freed_by) {}

  void lose_name(const LiveAllocation& physical) const;
  void join(LiveAllocation& physical, SegmentTag tag) const;
  void grow(LiveAllocation& mapping, SegmentTag tag) const;
  void shrink(const LiveAllocation& mapping, SegmentTag tag) const;
  void map(const LiveAllocation& mapping) const;
  void unmap(const LiveAllocation& mapping, const LiveAllocation& physical) const;
  void end(const LiveAllocation& physical) const;

 private:
  ProcessMemory& memory_;
  const trace::CallHeader* freed_by_;
};

// Each part keeps its own rules. Functions here serve several kinds of calls or concern several
// parts: MemoryCalls, MappingCalls and GraphCalls have the meaning of the calls.
struct ProcessMemory {
  // All arguments are borrowed, except the process's number.
  ProcessMemory(std::uint32_t process_index, PresentRecord& present_record,
                RunStatistics& run_statistics, Accounts& process_accounts, LookAhead& merge)
      : process(process_index),
        present(present_record),
        statistics(run_statistics),
        accounts(process_accounts),
        look_ahead(merge) {}
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  [[nodiscard]] GroupKey key_of(const trace::CallHeader& call, const ledger::Target& target);
  [[nodiscard]] GroupKey key_of(const trace::CallHeader& call, Kind kind, std::int32_t location) {
    return key_of(call, ledger::target_of(kind, location, call.context, contexts));
  }

  // Driver, pool or host memory at an address of its own is live from now on.
  void hand_out(const LiveAllocation& entry, const GroupKey& key);
  // False if nothing is live at the address. `call` is the free if it is the present record,
  // `writer` whose free it was.
  [[nodiscard]] bool take_back(Memory::Space space, std::uint64_t address, std::uint32_t writer,
                               const trace::CallHeader* call = nullptr);
  // The address is about to be handed out: any allocation that is live there ends.
  void make_room(Memory::Space space, std::uint64_t address);
  void create_physical(const LiveAllocation& entry, const GroupKey& key);
  // Drops a reference of physical memory. `call` is the one that did if it is the present
  // record.
  void release_handle(std::uint64_t handle, const trace::CallHeader* call = nullptr);
  // Ends the entry in the other parts, after it is gone from `live`.
  void ended(const LiveAllocation& entry);

  // Before the record's free takes effect. `find` returns the memory that it frees, nullptr if that
  // is not known.
  template <class Find>
  void count_collected(const trace::RecordHeader& record, Find&& find) {
    if ((record.flags & trace::kFlagCollected) == 0) {
      return collected.end_collection(present.writer);
    }
    const LiveAllocation* const entry = find();
    if (entry != nullptr) collected.free(present.writer, *entry, present.time);
  }

  // A block of the framework lies where none was before: the driver memory around it is a segment.
  // Its id; 0 if no such memory is known. `capture` is the one that asked for the block, or
  // nullptr.
  std::uint32_t discover_segment(std::uint64_t address, PrivatePools::Capture* capture);
  void pools_changed(std::int32_t device);
  void physical_changed(std::int32_t device);
  // A second event of the present record: no two share a time.
  void begin_next_moment() { accounts.advance(++present.time); }
  // std::bad_alloc if a part had no memory.
  void check_parts() const;

  // Visits live memory: the level's own blocks or mappings, or else all other memory.
  template <class Visit>
  void for_each_live(Level level, Visit&& visit) const;
  // The memory of one level on one device that was live at the peak. The peak must watch that
  // account, or be now. Memory that lives on has no use yet.
  [[nodiscard]] std::vector<ReleasedAllocation> lives_at(const PeakSnapshot& moment, Level level,
                                                         std::int32_t device) const;
  [[nodiscard]] std::vector<LiveAllocation> live_at(const PeakSnapshot& moment, Level level,
                                                    std::int32_t device) const;
  [[nodiscard]] std::vector<LiveAllocation> live_now(Level level, std::int32_t device) const {
    return live_at(PeakSnapshot::now(), level, device);
  }
  [[nodiscard]] Fragmentation fragmentation_at(const PeakSnapshot& moment,
                                               std::int32_t device) const;
  // The segments of the framework's default pool, as units (geometry.hpp).
  [[nodiscard]] std::vector<Unit> units_at(const PeakSnapshot& moment, std::int32_t device) const;
  // The process's physical bytes on the device by their use.
  [[nodiscard]] Parts parts_now(std::int32_t device) const;
  [[nodiscard]] bool belongs(const LiveAllocation& entry, Level level, std::int32_t device) const;

  const std::uint32_t process;
  PresentRecord& present;
  RunStatistics& statistics;
  Accounts& accounts;
  LookAhead& look_ahead;

  Memory live{accounts};
  VirtualMemory virtual_memory;
  Framework framework{accounts};
  Devices devices{accounts, present, process,
                  [this](std::int32_t ordinal) { return parts_now(ordinal); }};
  ledger::DriverRounding rounding;
  Pools pools;
  Graphs graphs;
  ledger::CopyLocations copy_locations;
  ledger::Contexts contexts;  // all that were seen, also those that have ended
  NcclMemory nccl;
  OutOfMemory out_of_memory;
  CollectedMemory collected;
  ledger::RefusedFrees refused_frees;
  std::set<std::uint64_t> external_mappings;  // freed by cuMemFree, no memory of their own
  // Frees that had begun when the trace ended: it is not known whether their memory is live, unless
  // the address is handed out again.
  std::set<std::uint64_t> unfinished_frees;

 private:
  std::uint32_t add_segment_around(LiveAllocation& around, PrivatePools::Capture* capture);

  std::uint64_t searched_version_ = 0;  // of `live`, when a search for a segment found nothing
};

template <class Visit>
void ProcessMemory::for_each_live(Level level, Visit&& visit) const {
  if (level == Level::kFramework) return framework.for_each_block(visit);
  if (level == Level::kMapping) {
    for (const VirtualMemory::Mapping& mapping : virtual_memory.mappings().ranges()) {
      visit(mapping.entry);
    }
    return;
  }
  live.for_each(visit);
  virtual_memory.for_each_physical(
      [&](const VirtualMemory::Physical& physical) { visit(physical.entry); });
}

}  // namespace gpumemtrace::analyzer
