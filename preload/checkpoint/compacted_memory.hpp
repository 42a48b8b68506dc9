// SPDX-License-Identifier: Apache-2.0
// Observes the memory ledger for a checkpoint: retains the records of live memory, and replaces the
// other records by sums.
#pragma once

#include <array>
#include <cstdint>

#include "preload/checkpoint/compacted_records.hpp"
#include "preload/checkpoint/group_sums.hpp"
#include "preload/checkpoint/retained_tensors.hpp"
#include "trace/ledger/flat_map.hpp"
#include "trace/ledger/process_ledger.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

struct CompactedStorage {
  struct Entry {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t born_time = 0;  // when it was allocated, in model time (trace/order.hpp)
    std::uint32_t group = 0;
    std::uint32_t pool = 0;  // the pool's index, for stream-ordered memory
    RecordId record = 0;
    RecordId exported = 0;  // the record of the export of the memory's IPC handle
  };
  struct Mapped {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t born_time = 0;  // when it was allocated, in model time (trace/order.hpp)
    std::uint32_t group = kNoIndex32;
    std::int32_t device = ledger::kUnknownDevice;
    RecordId record = 0;      // the record that created or mapped the memory
    RecordId released = 0;    // the free that dropped the last reference, while mappings remain
    RecordId referenced = 0;  // the call that added the only reference beside the first one
    // true if the memory's records stay in the trace after its end, as those of imported memory do
    bool stays = false;
  };
  struct SegmentTag {
    RecordId record = 0;  // the record of the reservation
    bool has_blocks = false;
    std::int32_t device = ledger::kUnknownDevice;  // the segment's device

    [[nodiscard]] bool is_segment() const { return has_blocks; }
  };
  template <class Value>
  using Array = MappedArray<Value>;
  static constexpr std::size_t kSparseSlots = 0;
};

class CompactedMemory : public ledger::ProcessLedger<CompactedMemory, CompactedStorage> {
 public:
  // `records` is borrowed: it must outlive this object.
  explicit CompactedMemory(CompactedRecords& records) noexcept : records_(records) {}

  using ProcessLedger::apply;
  void apply(const trace::Allocation& call) noexcept;
  void apply(const trace::Block& block) noexcept;
  void apply(const trace::Tensor& tensor) noexcept;
  void apply(const trace::Pool& call) noexcept;
  void apply(const trace::PoolSample& sample) noexcept;
  void apply(const trace::MemorySample& sample) noexcept;
  void apply(const trace::ContextLimits& limits) noexcept;
  // True if the record allocates an address that is still live.
  [[nodiscard]] bool is_conflict(const trace::RecordHeader& record) noexcept;
  // Called after the last record: counts the allocations whose free is still awaited.
  void finish() noexcept;
  // Assigns the group, if it is new, to the sum for the kind of memory, device and pool that
  // `target` names. Returns `group`.
  std::uint32_t bind(std::uint32_t group, const ledger::Target& target) noexcept;
  OwnCurves* curves(std::int32_t device) noexcept {
    return sums.curves(device, pools.sums_of(device), records_.now);
  }
  [[nodiscard]] bool failed() const noexcept { return ProcessLedger::failed() || sums.failed(); }

  // ProcessLedger calls the functions from here on.
  [[nodiscard]] std::uint64_t now() const noexcept { return records_.now; }
  [[nodiscard]] static ledger::CallSite site_of(const trace::CallHeader& call) noexcept {
    return ledger::site_of(call);
  }
  [[nodiscard]] static bool is_exiting() noexcept { return false; }
  [[nodiscard]] ledger::Target target_of(const Entry& entry) noexcept;
  [[nodiscard]] ledger::Target target_of(const Mapped& physical) noexcept;
  [[nodiscard]] trace::ContextId context_of(const Entry& entry) noexcept {
    return sums.group(entry.group).totals.context;
  }
  [[nodiscard]] ledger::CallSite site_of_group(std::uint32_t group) noexcept {
    return ledger::site_of(sums.group(group).totals);
  }
  template <class Allocated>
  void on_live(const Allocated& memory) noexcept {
    sums.add(memory.group, {memory.bytes, memory.born_time}, records_.now);
  }
  void on_end(const Entry& entry, ledger::End end, const trace::CallHeader* call) noexcept;
  static void on_ended_replaced(const Live::Ended&) noexcept {}
  // A compaction cannot look at later records: when a live address is allocated again, the older
  // memory ends at once, and its free is awaited.
  [[nodiscard]] static bool ends_unfinished_free(std::uint64_t) noexcept { return false; }
  [[nodiscard]] static bool finds_late_free(std::uint64_t) noexcept { return false; }
  [[nodiscard]] bool take_late_free(const trace::Free& call) noexcept;
  void on_unknown_free(const trace::Free& call, bool) noexcept {
    records_.retain(call.call.record);
  }
  void on_captured_free(const trace::Free& call) noexcept {
    has_graph_memory = true;
    records_.retain(call.call.record);
  }
  void on_refused(const trace::Free& call, const ledger::Refusal& refusal) noexcept;
  void on_release(PhysicalMemory* physical, const trace::CallHeader* call) noexcept;
  void on_reference(const trace::Mapping& call, PhysicalMemory* physical) noexcept;
  [[nodiscard]] SegmentTag tag_of(const trace::Mapping& call) noexcept {
    return {records_.retain(call.call.record), (call.call.record.flags & trace::kFlagSegment) != 0,
            call.location};
  }
  [[nodiscard]] Mapped mapping_of(const trace::Mapping& call, const PhysicalMemory*) noexcept {
    return {.address = call.address,
            .bytes = call.bytes,
            .born_time = records_.now,
            .record = records_.retain(call.call.record)};
  }
  [[nodiscard]] Mapped imported(const trace::Mapping& call) const noexcept;
  void on_unmap(const trace::Mapping& call) noexcept;
  void on_reservation_freed(const trace::Mapping& call, const SegmentTag& tag) noexcept;
  void on_import(const trace::Import& call) noexcept;
  // Keeps the record of the newest export of each live allocation: programs export the same
  // allocation again and again.
  void on_export(const trace::Import& call) noexcept;
  [[nodiscard]] bool end_block(const trace::Block& block) noexcept;
  void on_unknown_block(const trace::Block& block) noexcept { records_.retain(block.record); }
  void on_replaced_block() noexcept {
    ++records_.counts.live_address_allocated;
    ++records_.now;
  }
  void on_no_effect(const trace::RecordHeader& record) noexcept {
    records_.count_compacted(record);
  }
  void on_context_call(const trace::ContextCall& call, bool has_effect) noexcept;
  void on_context_opened(std::int32_t device) noexcept {
    if (OwnCurves* const own = curves(device)) own->add_context();
  }
  void physical_changed(std::int32_t device) noexcept {
    sums.physical_changed(device, rounding.bytes(device), pools.sums_of(device), records_.now);
  }
  void pools_changed(std::int32_t device) noexcept { physical_changed(device); }
  void on_managed() noexcept { sums.add_managed(pools, records_.now); }
  void on_handle_lost(Mapped& physical) noexcept {
    ++records_.counts.live_address_allocated;
    physical.stays = true;
  }
  void on_joined(Mapped& physical, const SegmentTag&) noexcept {
    if (physical.group == kNoIndex32) return;
    physical.group = move_to_segments(physical.group, {physical.bytes, physical.born_time});
  }
  void on_grown(const Mapped& mapping, const SegmentTag& tag) noexcept {
    grow_segments(tag.device, {mapping.bytes, mapping.born_time});
  }
  void on_shrunk(const Mapped& mapping, const SegmentTag& tag) noexcept {
    shrink_segments(tag.device, mapping.bytes);
  }
  static void on_mapped(const Mapped&) noexcept {}
  void on_unmapped(const Mapped& mapping, Mapped& physical) noexcept {
    if (!unmap_stays_) records_.drop(mapping.record);
    physical.stays = physical.stays || unmap_stays_;
  }
  void on_unreferenced(const Mapped& physical, const trace::CallHeader* call) noexcept;

  GroupSums sums;
  // True once a graph has memory of its own; the sums do not follow the allocations of launches.
  bool has_graph_memory = false;

 private:
  // An allocation with its free, as the sums count them.
  struct Pair {
    std::uint64_t bytes = 0;
    std::uint64_t host_ticks = 0;
    std::uint64_t born_time = 0;
  };
  // An allocation whose address was handed out again before its free was seen.
  struct Replaced {
    std::uint64_t address = 0;
    std::uint64_t deadline_ticks = 0;
    std::uint32_t writer = 0;  // the newer allocation's writer
    std::uint32_t group = 0;
    Pair pair;
  };
  // The group of the last block that was allocated with this stack.
  struct BlockGroup {
    trace::StackId stack = trace::StackId::kNone;
    std::int32_t device = ledger::kUnknownDevice;
    std::uint32_t group = kNoIndex32;
  };

  std::uint32_t group_of(const trace::Totals& like, const ledger::Target& target) noexcept {
    return bind(sums.group_of(like), target);
  }
  std::uint32_t group_of(const trace::Block& block) noexcept;
  void begin_block(const trace::Block& block) noexcept;
  // `is_freed`: false if the free was not seen. `freed_by`: the call that freed the memory, nullptr
  // if it is not known.
  void count_pair(std::uint32_t group, const Pair& pair, bool is_freed,
                  const trace::CallHeader* freed_by) noexcept;
  template <class Allocated>
  Pair pair_of(const Allocated& memory) noexcept;
  void wait_for_free(const Entry& entry, const Pair& pair) noexcept;
  void give_up(const Replaced& replaced) noexcept;
  void mark_segment(std::uint64_t address) noexcept;
  // Called when memory of the group turns out to be a segment of the framework. Returns the group
  // in which the segment is counted from now on.
  std::uint32_t move_to_segments(std::uint32_t group, const LiveBytes& moved) noexcept;
  // Called when the framework's segments on the device have become larger (grow) or smaller.
  void grow_segments(std::int32_t device, const LiveBytes& more) noexcept {
    if (Physical* const state = sums.physical(device)) {
      state->framework.grow(more.bytes, more.born_time);
    }
  }
  void shrink_segments(std::int32_t device, std::uint64_t bytes) noexcept {
    if (Physical* const state = sums.physical(device)) state->framework.shrink(bytes);
  }
  [[nodiscard]] bool is_segment(std::uint32_t group) noexcept {
    return (sums.group(group).totals.record.flags & trace::kFlagSegment) != 0;
  }

  CompactedRecords& records_;
  ledger::FlatMap<Entry, &Entry::address, MappedArray> blocks_;
  RetainedTensors tensors_;
  MappedArray<Replaced> replaced_;
  std::array<BlockGroup, 256> block_groups_;  // by the stack's number, modulo the size
  bool unmap_stays_ = false;                  // true: the present unmapping call is retained
};

}  // namespace gpumemtrace::preload
