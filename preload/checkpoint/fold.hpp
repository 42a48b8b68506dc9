// SPDX-License-Identifier: Apache-2.0
// Folds the oldest records of a trace into what a checkpoint keeps of them: what is still live, who
// held the peaks, and totals of the rest. Knows no file; preload/checkpoint/checkpoint.cpp feeds
// it.
//
//   add(record) in the order in which records took effect  ->  write(): the checkpoint's records
//
// Whatever is not understood to be over is kept as it is: to keep too much is always right. A
// checkpoint's own records are folded like others, so checkpoints do not pile up.
#pragma once

#include <cstdint>

#include "preload/base/address_table.hpp"
#include "preload/checkpoint/fold_ledger.hpp"
#include "preload/checkpoint/fold_places.hpp"
#include "preload/checkpoint/fold_pools.hpp"
#include "preload/checkpoint/fold_samples.hpp"
#include "preload/checkpoint/fold_virtual.hpp"
#include "preload/checkpoint/kept_records.hpp"
#include "trace/activity_records.hpp"
#include "trace/checkpoint_records.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

// Takes the records of a checkpoint, one after the other; false ends the writing.
struct RecordSink {
  void* owner = nullptr;
  bool (*take)(void* owner, const trace::RecordHeader& record) = nullptr;
};

// - One thread. Memory grows with what is live and with the number of call sites.
// - failed() where the system has no memory: the fold is worthless then.
class Fold {
 public:
  // The record took effect at `ticks`; records come in the order of trace/order.hpp. Its words may
  // not change while add() runs.
  void add(const trace::RecordHeader& record, std::uint32_t writer, std::uint64_t ticks) noexcept;
  // The record hands out an address that is live: whether the free that is missing comes within the
  // reorder window must be seen before it is folded.
  bool is_conflict(const trace::RecordHeader& record) noexcept;
  // The checkpoint's records; all that follow in the trace took effect after `cut_ticks`.
  bool write(std::uint64_t cut_ticks, const RecordSink& sink) noexcept;

  bool failed() const noexcept { return failed_ || ledger_.failed(); }

 private:
  struct Live {
    std::uint64_t address = 0;
    LiveBytes bytes;
    std::uint32_t group = 0;
    std::uint32_t pool = 0;  // of stream-ordered memory
    KeptId record = 0;
    std::uint32_t writer = 0;
    bool is_pinned = false;  // records about it were kept, so it must be, too
  };
  // An allocation whose address was handed out again before its free was seen.
  struct Shadow {
    std::uint64_t address = 0;
    std::uint64_t deadline = 0;  // ticks
    std::uint32_t writer = 0;    // of the newer allocation
    std::uint32_t group = 0;
    std::uint64_t bytes = 0;
    KeptId record = 0;  // of the older one where it is pinned
  };
  struct ContextInfo {
    std::int32_t device = kUnknownDevice;
    bool is_primary = false;
    bool is_known = false;
  };
  // Where an allocation counts.
  struct Target {
    trace::PeakScope scope = trace::PeakScope::kDriver;
    trace::MemoryKind memory = trace::MemoryKind::kUnknown;
    std::int32_t device = kUnknownDevice;
    std::uint32_t pool = 0;
  };
  struct SeenThread {
    std::uint64_t address = 0;  // its writer and its number plus 1
  };

  // fold.cpp: what needs no more than counting or keeping
  KeptId keep(const trace::RecordHeader& record) noexcept;
  void drop(KeptId id) noexcept;
  void count_gone(const trace::RecordHeader& record) noexcept;
  void count_only(const trace::RecordHeader& record) noexcept;
  void add_dictionary(const trace::RecordHeader& record) noexcept;
  void add_thread(const trace::Thread& thread, std::uint32_t writer) noexcept;
  void add_dropped(const trace::ActivityDropped& dropped) noexcept;
  void add_gap(const trace::Gap& gap) noexcept;
  void add_annotation(const trace::Annotation& annotation) noexcept;
  void add_copy(const trace::Copy& call) noexcept;
  void add_set(const trace::Set& call) noexcept;
  void add_transfer(const trace::CallHeader& call, const GroupKey& key, std::uint64_t bytes,
                    bool has_time) noexcept;
  void add_graph(const trace::Graph& call) noexcept;
  void add_import(const trace::Import& call) noexcept;
  void add_sample(const trace::MemorySample& sample) noexcept;
  std::int32_t device_of(std::uint32_t context) const noexcept {
    return context < contexts_.size() ? contexts_[context].device : kUnknownDevice;
  }
  void set_place(std::uint64_t address, std::uint64_t bytes, trace::Place place,
                 std::int32_t device) noexcept {
    if (!places_.set(address, bytes, {place, device})) failed_ = true;
  }

  // fold_memory.cpp: allocations, frees, blocks, contexts
  void add_allocation(const trace::Allocation& call, std::uint32_t writer) noexcept;
  void add_free(const trace::Free& call, std::uint32_t writer) noexcept;
  void add_refused_free(const trace::Free& call) noexcept;
  void add_block(const trace::Block& block) noexcept;
  void add_context_call(const trace::ContextCall& call) noexcept;
  bool end_context(const trace::ContextCall& call) noexcept;
  bool ends_with(const trace::ContextCall& call, const Live& live) noexcept;
  Target target_of(const trace::Allocation& call) noexcept;
  std::uint32_t group_of(const GroupKey& key, const Target& target) noexcept;
  void begin(AddressTable<Live>& table, Live live) noexcept;
  void make_room(AddressTable<Live>& table, const trace::Allocation& call,
                 std::uint32_t writer) noexcept;
  void give_up(const Shadow& shadow) noexcept;
  bool end_shadow(const trace::Free& call, std::uint32_t writer) noexcept;
  void keep_in_order(const trace::Free& call) noexcept;
  // Takes it out of the sums; its record stays.
  void end_sums(const Live& live) noexcept;
  void count_pair(std::uint32_t group, std::uint64_t bytes, bool freed) noexcept;
  void mark_segment(std::uint64_t address) noexcept;
  AddressTable<Live>& table_of(trace::MemoryKind memory) noexcept;

  // fold_mapping.cpp: virtual memory and pools
  void create_physical(const trace::Allocation& call, std::uint32_t group) noexcept;
  void release_physical(const trace::Free& call) noexcept;
  void end_physical(PhysicalMemory& memory) noexcept;
  void add_mapping(const trace::Mapping& call) noexcept;
  void map(const trace::Mapping& call) noexcept;
  void unmap(const trace::Mapping& call) noexcept;
  void retain(const trace::Mapping& call) noexcept;
  void import_handle(const trace::Mapping& call) noexcept;
  void free_reservation(const trace::Mapping& call) noexcept;
  void mark_reservation(Reservation& reservation, std::int32_t device) noexcept;
  void mark_physical(PhysicalMemory& memory) noexcept;
  PhysicalMemory* named(std::uint64_t handle) noexcept;
  void add_pool_call(const trace::Pool& call) noexcept;
  void add_pool_sample(const trace::PoolSample& sample) noexcept;
  void update_pool_sums(std::int32_t device) noexcept;
  void sum_pools(Physical& device) noexcept;
  static void count_in_last_sample(Physical& device, std::uint64_t more_bytes) noexcept;

  // fold_result.cpp: earlier checkpoints, and the new one
  void add_totals(const trace::Totals& totals) noexcept;
  void add_peak(const trace::Peak& peak) noexcept;
  void add_peak_holder(const trace::PeakHolder& holder) noexcept;
  void add_checkpoint(const trace::Checkpoint& checkpoint) noexcept;
  void tell_reserved(const trace::Peak& peak) noexcept;
  void tell_physical_peak(Physical& device, const trace::Peak& peak) noexcept;
  bool write_totals(std::uint64_t cut, const RecordSink& sink) noexcept;
  bool write_account_peaks(std::uint64_t cut, const RecordSink& sink) noexcept;
  bool write_row_peaks(std::uint64_t cut, const RecordSink& sink) noexcept;
  bool write_reserved(std::uint64_t cut, const RecordSink& sink) noexcept;
  bool write_physical_peaks(std::uint64_t cut, const RecordSink& sink) noexcept;
  bool write_holders(std::uint64_t cut, std::uint32_t account, const Moment& moment,
                     Share Group::*share, const RecordSink& sink) noexcept;

  Ledger ledger_;
  KeptRecords kept_;
  AddressTable<Live> addresses_;
  AddressTable<Live> arrays_;
  AddressTable<Live> blocks_;
  AddressTable<SeenThread> threads_;
  MappedArray<Shadow> shadows_;
  VirtualMemory virtual_;
  FoldPools pools_;
  FoldSamples samples_;
  Places places_;
  MappedArray<ContextInfo> contexts_;

  std::uint64_t now_ = 0;    // as in the analyzer: strictly increasing
  std::uint64_t ticks_ = 0;  // of the present record
  KeptId open_capture_ = 0;
  KeptId gap_ = 0;
  KeptId dropped_ = 0;
  KeptId leaks_mark_ = 0;              // the last mark that says from where on leaks count
  std::uint32_t leaks_mark_name_ = 0;  // the number of its name; 0 = not told yet
  // Of the peak record that came last and won, for the holders that follow it; epoch 0: none.
  trace::PeakScope told_scope_ = trace::PeakScope::kDriver;
  std::int32_t told_device_ = kHostMemory;
  std::uint32_t told_epoch_ = 0;
  trace::Checkpoint counts_;
  bool graph_memory_ = false;
  bool failed_ = false;
};

// Which sums an allocation of this kind counts in.
constexpr trace::PeakScope scope_of(trace::MemoryKind memory) noexcept {
  switch (memory) {
    case trace::MemoryKind::kStreamOrdered:
      return trace::PeakScope::kPools;
    case trace::MemoryKind::kManaged:
      return trace::PeakScope::kManaged;
    case trace::MemoryKind::kPinned:
    case trace::MemoryKind::kRegistered:
    case trace::MemoryKind::kPhysicalHost:
      return trace::PeakScope::kHost;
    default:
      return trace::PeakScope::kDriver;
  }
}

// Kinds that a report does not tell apart count as one.
constexpr trace::MemoryKind reported_kind(trace::MemoryKind memory) noexcept {
  if (memory == trace::MemoryKind::kUnknown) return trace::MemoryKind::kDevice;
  if (memory == trace::MemoryKind::kMipmappedArray) return trace::MemoryKind::kArray;
  return memory;
}

}  // namespace gpumemtrace::preload
