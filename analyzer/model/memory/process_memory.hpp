// SPDX-License-Identifier: Apache-2.0
// All memory of one process, and the common parts of the calls that change it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/accounts/devices.hpp"
#include "analyzer/model/accounts/present_record.hpp"
#include "analyzer/model/accounts/run_statistics.hpp"
#include "analyzer/model/memory/collected.hpp"
#include "analyzer/model/memory/framework.hpp"
#include "analyzer/model/memory/geometry.hpp"
#include "analyzer/model/memory/graphs.hpp"
#include "analyzer/model/memory/nccl_memory.hpp"
#include "analyzer/model/memory/out_of_memory.hpp"
#include "analyzer/model/memory/shared_memory.hpp"
#include "analyzer/order/merge.hpp"
#include "trace/ledger/live_memory.hpp"
#include "trace/ledger/process_ledger.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

using ledger::EndedBy;
using ledger::Pools;
using ledger::PoolState;
using ledger::PoolSums;
using ledger::Teardown;
using trace::FreedWhat;

// Number and bytes of similar allocations, and the times at which the first and the last of them
// was made.
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

struct ModelStorage {
  using Entry = LiveAllocation;
  // LiveAllocation::link of a mapping: id of the framework's segment that the mapping belongs to.
  using Mapped = LiveAllocation;
  // The framework's segment in a reservation of virtual memory; 0 if no block was seen in it.
  struct SegmentTag {
    std::uint32_t id = 0;

    [[nodiscard]] bool is_segment() const { return id != 0; }
  };
  template <class Value>
  using Array = HeapArray<Value>;
  static constexpr std::size_t kSparseSlots = analyzer::kSparseSlots;
};

// - ProcessLedger keeps the live memory; the functions that it calls here update accounts, segments
//   and statistics. Mappings have a level (ledger::Level) of their own, so that snapshots of past
//   peaks include mappings.
// - Rules that concern one member alone are in the class of that member.
struct ProcessMemory : ledger::ProcessLedger<ProcessMemory, ModelStorage> {
  // All arguments are borrowed, except for `process_index`.
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

  [[nodiscard]] GroupKey key_of(const trace::Allocation& call) {
    return key_of(call.call, ledger::target_of(call, contexts, pools));
  }

  using ProcessLedger::apply;
  void apply(const trace::Pool& call);
  void apply(const trace::PoolSample& sample);
  // Takes a successful call about graphs.
  void apply(const trace::Graph& call);
  // Counts a call that got no memory. True if this is a shortage of a kind that has no snapshot
  // yet: the caller may then pass a snapshot to OutOfMemory::set_snapshot().
  [[nodiscard]] bool fail(const trace::Allocation& call, const GroupKey& key);
  // Takes an allocation that was captured into a graph: only a launch of the graph makes the memory
  // live.
  void capture(const trace::Allocation& call, GroupKey key);
  // `group` is the group of `key`.
  void allocate(const trace::Allocation& call, const GroupKey& key, std::uint32_t group);
  // The framework hands out a block, which may show a new segment. Returns the group in which the
  // block counts.
  std::uint32_t begin_block(const trace::Block& block, Phase phase);

  // ProcessLedger calls the functions below.
  [[nodiscard]] std::uint64_t now() const { return present.time; }
  [[nodiscard]] CallSite site_of(const trace::CallHeader& call) const {
    return present.site_of(call);
  }
  [[nodiscard]] bool is_exiting() const { return statistics.exit_seen; }
  [[nodiscard]] ledger::Target target_of(const LiveAllocation& entry) const {
    const GroupKey& key = accounts.group(entry.group).key;
    return {key.kind, key.device, key.device, key.pool};
  }
  [[nodiscard]] trace::ContextId context_of(const LiveAllocation& entry) const {
    return accounts.group(entry.group).key.context;
  }
  [[nodiscard]] const CallSite& site_of_group(std::uint32_t group) const {
    return accounts.group(group).key.site;
  }
  void on_live(const LiveAllocation& entry) {
    ++version_;
    accounts.add(entry.group, entry.bytes, entry.born);
  }
  void on_end(const LiveAllocation& entry, ledger::End how, const trace::CallHeader* call);
  void on_ended_replaced(const Live::Ended& ended) {
    torn_down_at_reused_addresses[{ended.entry.group, ended.teardown.reason}].add(ended.entry.bytes,
                                                                                  ended.entry.born);
  }
  [[nodiscard]] bool ends_unfinished_free(std::uint64_t address) {
    return unfinished_frees.erase(address) != 0;
  }
  [[nodiscard]] bool finds_late_free(std::uint64_t address);
  [[nodiscard]] static bool take_late_free(const trace::Free&) { return false; }
  void on_unknown_free(const trace::Free& call, bool was_ended);
  void on_captured_free(const trace::Free& call) { graphs.capture_free(call.stream, call.address); }
  void on_refused(const trace::Free& call, const ledger::Refusal& refusal);
  void on_release(const PhysicalMemory* physical, const trace::CallHeader*) {
    if (physical == nullptr) ++statistics.unknown_frees;
  }
  void on_reference(const trace::Mapping& call, const PhysicalMemory* physical);
  [[nodiscard]] SegmentTag tag_of(const trace::Mapping& call);
  [[nodiscard]] LiveAllocation mapping_of(const trace::Mapping& call, PhysicalMemory* physical);
  [[nodiscard]] LiveAllocation imported(const trace::Mapping& call);
  static void on_unmap(const trace::Mapping&) {}
  void on_reservation_freed(const trace::Mapping&, SegmentTag tag) {
    if (tag.is_segment()) framework.remove_segment(tag.id, present.time);
  }
  void on_import(const trace::Import& call);
  [[nodiscard]] bool end_block(const trace::Block& block);
  void on_unknown_block(const trace::Block&) { ++statistics.unknown_frees; }
  void on_replaced_block();
  static void on_no_effect(const trace::RecordHeader&) {}
  static void on_context_call(const trace::ContextCall&, bool) {}
  void on_context_opened(std::int32_t device) {
    devices.state(device).log.add(present.time, CardEventKind::kContext);
  }
  void physical_changed(std::int32_t device);
  void pools_changed(std::int32_t device);
  void on_managed() { devices.add_managed(); }
  void on_handle_lost(const LiveAllocation&) { ++statistics.live_address_allocated; }
  void on_joined(LiveAllocation& physical, SegmentTag tag);
  void on_grown(LiveAllocation& mapping, SegmentTag tag);
  void on_shrunk(const LiveAllocation& mapping, SegmentTag tag);
  void on_mapped(const LiveAllocation& mapping) {
    accounts.add(mapping.group, mapping.bytes, mapping.born);
  }
  void on_unmapped(const LiveAllocation& mapping, const LiveAllocation&) {
    accounts.remove(mapping, Accounts::End::kFreed);
  }
  void on_unreferenced(const LiveAllocation& physical, const trace::CallHeader* call);

  // Advances the model time by a tick for a second event of the same record, because no two events
  // share a time.
  void advance_model_time() { accounts.advance(++present.time); }
  // Throws std::bad_alloc if the ledger could not allocate memory for its own tables.
  void check_parts() const;

  // Visits the framework's blocks for Level::kFramework, mappings for Level::kMapping, and all
  // other live memory, of any level, for each other level.
  template <class Visit>
  void for_each_live(Level level, Visit&& visit) const;
  // The memory of one level on one device that was live at `moment`: a snapshot that gets the frees
  // of this level and device (Account::other_snapshots), or PeakSnapshot::now(). Memory that is
  // still live has an empty BlockUse.
  [[nodiscard]] std::vector<ReleasedAllocation> lives_at(const PeakSnapshot& moment, Level level,
                                                         std::int32_t device) const;
  [[nodiscard]] std::vector<LiveAllocation> live_at(const PeakSnapshot& moment, Level level,
                                                    std::int32_t device) const;
  [[nodiscard]] std::vector<LiveAllocation> live_now(Level level, std::int32_t device) const {
    return live_at(PeakSnapshot::now(), level, device);
  }
  [[nodiscard]] Fragmentation fragmentation_at(const PeakSnapshot& moment,
                                               std::int32_t device) const;
  // The segments of the framework's default pool, as units (geometry.hpp) for measuring
  // fragmentation.
  [[nodiscard]] std::vector<Unit> units_at(const PeakSnapshot& moment, std::int32_t device) const;
  // The process's physical bytes on the device, divided by their use.
  [[nodiscard]] Parts parts_now(std::int32_t device) const;
  [[nodiscard]] bool belongs(const LiveAllocation& entry, Level level, std::int32_t device) const;

  const std::uint32_t process;
  PresentRecord& present;
  RunStatistics& statistics;
  Accounts& accounts;
  LookAhead& look_ahead;

  Framework framework{accounts};
  Devices devices{accounts, present};
  Graphs graphs;
  NcclMemory nccl;
  OutOfMemory out_of_memory;
  CollectedMemory collected;
  SharedMemory shared;
  // addresses of mapped external memory: cuMemFree ends the mapping, but it has no memory of its
  // own
  std::set<std::uint64_t> external_mappings;
  // Addresses whose free had begun when the trace ended: it is not known if their memory is live,
  // unless the address is handed out again.
  std::set<std::uint64_t> unfinished_frees;
  // Allocations that ended with their context and whose address another allocation got that has
  // since ended in the same way. By group and reason.
  std::map<std::pair<std::uint32_t, EndedBy>, Tally> torn_down_at_reused_addresses;

 private:
  void hand_out(Space space, const LiveAllocation& entry);
  void launch(const GraphMemory& graph);
  void open_import(const trace::Import& call);
  // Notes that another process may open the memory from now on.
  void export_memory(const trace::Import& call);
  // Closes the import at the address. Returns its group; none if there is no import there, or if it
  // is still open because it was opened several times.
  [[nodiscard]] std::optional<std::uint32_t> end_import(std::uint64_t address);
  // Counts a free in `collected` before it takes effect. `freed` is the memory; nullptr if not
  // known.
  void count_collected(const trace::RecordHeader& record, const LiveAllocation* freed);
  // Called if a block of the framework lies outside of all known segments: the driver memory around
  // it is a segment. Returns the segment's id; 0 if no such memory is known. `capture` asked for
  // the block; nullptr if no capture did.
  std::uint32_t discover_segment(std::uint64_t address, PrivatePools::Capture* capture);
  std::uint32_t add_segment_around(LiveAllocation& around, PrivatePools::Capture* capture);

  std::uint64_t version_ = 0;  // increased whenever memory begins or ends
  // version_ at which discover_segment() last searched all live memory
  std::uint64_t searched_version_ = 0;
};

using EndedAllocation = ProcessMemory::Live::Ended;

template <class Visit>
void ProcessMemory::for_each_live(Level level, Visit&& visit) const {
  if (level == Level::kFramework) return framework.for_each_block(visit);
  if (level == Level::kMapping) {
    for (const VirtualMemory::Mapping& mapping : virtual_memory.mappings().ranges()) {
      visit(mapping.entry);
    }
    return;
  }
  for (const Space space : {Space::kAddresses, Space::kArrays, Space::kImports}) {
    live.for_each(space, visit);
  }
  virtual_memory.for_each_physical([&](const PhysicalMemory& physical) { visit(physical.entry); });
}

}  // namespace gpumemtrace::analyzer
