// SPDX-License-Identifier: Apache-2.0
// Applies each call to the memory of one process. The analyzer's model and the recorder's
// checkpoints derive from it as observers: both follow the same rules, and each keeps sums of its
// own.
#pragma once

#include <cstdint>

#include "trace/ledger/call_site.hpp"
#include "trace/ledger/contexts.hpp"
#include "trace/ledger/copy_locations.hpp"
#include "trace/ledger/driver_rounding.hpp"
#include "trace/ledger/driver_use.hpp"
#include "trace/ledger/levels.hpp"
#include "trace/ledger/live_memory.hpp"
#include "trace/ledger/pools.hpp"
#include "trace/ledger/refused_frees.hpp"
#include "trace/ledger/targets.hpp"
#include "trace/ledger/virtual_memory.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// The way in which an allocation ended.
enum class End : std::uint8_t {
  kFreed,      // the allocation ended by a free, which is the present record
  kFreedLate,  // the allocation ended by a free that comes later in the order of records
  kReplaced,   // the driver handed out its address again, and no free of it is known
  kTornDown,   // the allocation ended with its context
};

// - Storage has the types Entry, of an allocation at an address of its own; Mapped, of physical
//   memory and of mappings; SegmentTag, of a reservation; and Array and kSparseSlots of FlatMap.
// - Observer is the class that derives from this one:
//     now(), site_of(call)      the present model time; the call site of the present record
//     is_exiting()              the process began to exit
//     target_of(entry)          the sum that an allocation or physical memory counts in
//     context_of(entry)         the context in which the entry was allocated
//     site_of_group(group)      the call site of a group of allocations
//     on_live(entry)            the entry is live from now on
//     on_end(entry, end, call)  the entry is no longer live; `call` is its free if that is the
//                               present record
//     on_ended_replaced(ended)  memory ended with its context at the address of `ended`, which had
//                               ended with a context before
//     ends_unfinished_free(address), finds_late_free(address)
//                               true if a free of the address is known that has not taken effect
//                               yet: in an unfinished call, or later in the order of records
//     take_late_free(call)      counts the free if its memory ended by End::kReplaced, else false
//     on_unknown_free(call, was_ended), on_captured_free(call), on_refused(call, refusal)
//     on_release(physical, call)  a reference to physical memory is dropped
//     on_reference(call, physical)  a reference is added, or memory of another process imported
//     tag_of(call), mapping_of(call, physical), imported(call)
//                               returns the entry to keep for a new reservation, mapping, or
//                               imported memory
//                               (`physical` is nullptr if the memory is not known)
//     on_unmap(call), on_reservation_freed(call, tag), on_import(call)
//     end_block(block)          ends the framework's block at the address; false if none is live
//     on_unknown_block(block), on_replaced_block()
//     on_no_effect(record)      the record has no effect on memory
//     on_context_call(call, has_effect)  `has_effect`: the call opened a context, or ended one
//                               and memory with it
//     on_context_opened(device), physical_changed(device), pools_changed(device), on_managed()
//   and the functions of VirtualMemory's Owner.
template <class Observer, class Storage>
struct ProcessLedger {
  using Entry = typename Storage::Entry;
  using Mapped = typename Storage::Mapped;
  using Live = LiveMemory<Entry, Storage::template Array, Storage::kSparseSlots>;
  using Space = typename Live::Space;
  using SegmentTag = typename Storage::SegmentTag;
  using VirtualMemory = ledger::VirtualMemory<Mapped, SegmentTag>;
  using PhysicalMemory = typename VirtualMemory::Physical;

  // Makes an allocation live at the address; fill(entry) sets all members but the address.
  template <class Fill>
  void hand_out(Space space, std::uint64_t address, Fill&& fill) {
    make_room(space, address);
    Entry* const entry = live.add(space, address);
    if (entry == nullptr) {
      has_failed = true;
      return;
    }
    fill(*entry);
    observer().on_live(*entry);
    const std::uint64_t bytes = entry->bytes;
    const Target target = observer().target_of(*entry);
    const Level level = level_of(target.kind);
    if (space == Space::kAddresses) {
      copy_locations.set(address, bytes, {class_of(level), target.device});
    }
    if (level == Level::kDriver) {
      rounding.add(target.device, target.kind, address, bytes);
      observer().physical_changed(target.device);
    } else if (level == Level::kPool && pools.allocate(target.pool, bytes)) {
      observer().pools_changed(target.device);
    } else if (level == Level::kManaged) {
      observer().on_managed();
    }
  }
  void create_physical(const Mapped& entry) {
    if (observer().ends_unfinished_free(entry.address)) release_handle(entry.address, nullptr);
    observer().on_live(entry);
    virtual_memory.create(entry, observer());
    const Target target = observer().target_of(entry);
    if (level_of(target.kind) == Level::kDriver) observer().physical_changed(target.device);
  }

  // Ends the allocation that is live at the address; false if there is none.
  [[nodiscard]] bool end(Space space, std::uint64_t address, End how,
                         const trace::CallHeader* call) {
    Entry ended;
    if (!live.remove(space, address, ended)) return false;
    observer().on_end(ended, how, call);
    if (call != nullptr) live.remember_free(ended, observer().site_of(*call));
    take_out(ended);
    return true;
  }
  void free(const trace::Free& call) {
    switch (meaning_of(call)) {
      case FreeMeaning::kNothing:
        return observer().on_no_effect(call.call.record);
      case FreeMeaning::kReleasesHandle:
        return release_handle(call.address, &call.call);
      case FreeMeaning::kRefused:
        return observer().on_refused(
            call, refused_frees.add(
                      live, call, observer().site_of(call.call), observer().now(),
                      [this](std::uint32_t group) { return observer().site_of_group(group); }));
      case FreeMeaning::kCaptured:
        return observer().on_captured_free(call);
      case FreeMeaning::kTakesBack: {
        if (observer().take_late_free(call)) return;
        if (end(Live::space_of(call.memory), call.address, End::kFreed, &call.call)) return;
        // The program freed memory that the end of its context had ended before: that is no leak.
        return observer().on_unknown_free(call, live.forget_ended(call.address));
      }
    }
  }

  void apply(const trace::Mapping& call) {
    using trace::MappingOperation;
    const trace::RecordHeader& record = call.call.record;
    if (record.result != trace::kCudaSuccess) return observer().on_no_effect(record);
    switch (call.operation) {
      case MappingOperation::kReserve:
        return virtual_memory.reserve(call.address, call.bytes, observer().tag_of(call));
      case MappingOperation::kFreeReservation:
        return free_reservation(call);
      case MappingOperation::kMap:
        return map(call);
      case MappingOperation::kUnmap: {
        observer().on_unmap(call);
        return virtual_memory.unmap(call.address, call.bytes, observer(), &call.call);
      }
      case MappingOperation::kRetainHandle:
        return observer().on_reference(call, virtual_memory.retain(call.handle, call.address));
      case MappingOperation::kImport:
        return import_handle(call);
      default:
        return observer().on_no_effect(record);
    }
  }
  void apply(const trace::Import& call) {
    const trace::RecordHeader& record = call.call.record;
    if (record.result != trace::kCudaSuccess) return observer().on_no_effect(record);
    if (maps_device_memory(call.operation)) {
      copy_locations.set(call.address, call.bytes,
                         {MemoryClass::kDevice, contexts.device_of(call.call.context)});
    }
    observer().on_import(call);
  }
  void apply(const trace::ContextCall& call) {
    using trace::ContextOperation;
    const CallSite site = observer().site_of(call.call);
    const bool opened = contexts.open(call, site);
    if (opened) observer().on_context_opened(contexts.device_of(call));
    const bool ended = end_of(call) != EndedBy::kNothing && end_context(call, site);
    observer().on_context_call(call, opened || ended);
    if (call.call.record.result != trace::kCudaSuccess) return;
    // The driver takes memory for a context by itself, from its creation to its end.
    if (call.operation == ContextOperation::kDestroy) {
      driver_use.end_context(call.handle_context);
    } else if (call.operation == ContextOperation::kCreate ||
               call.operation == ContextOperation::kRetainPrimary) {
      driver_use.add_call(contexts.device_of(call), DriverCause::kContext, site);
    }
  }
  // Ends the framework's block at the address. True if the record hands out a new block there.
  [[nodiscard]] bool make_room(const trace::Block& block) {
    const bool was_live = observer().end_block(block);
    const bool is_new = block.bytes > 0;
    if (was_live && is_new) observer().on_replaced_block();
    if (!was_live && !is_new) observer().on_unknown_block(block);
    return is_new;
  }

  [[nodiscard]] bool failed() const {
    return has_failed || copy_locations.failed() || pools.failed() || contexts.failed() ||
           virtual_memory.failed() || refused_frees.failed() || rounding.failed() ||
           driver_use.failed();
  }

  Live live;
  VirtualMemory virtual_memory;
  DriverRounding rounding;
  Pools pools;
  CopyLocations copy_locations;
  Contexts contexts;  // all contexts that were seen, also those that have ended
  RefusedFrees refused_frees;
  DriverUse driver_use;
  bool has_failed = false;  // there was no memory for a part of the ledger

 private:
  friend Observer;
  ProcessLedger() = default;

  [[nodiscard]] Observer& observer() { return static_cast<Observer&>(*this); }
  // Ends the allocation that is still live at an address which the driver hands out again. The
  // driver hands out only free addresses, so the free comes later in the order than it should, or
  // is missing.
  void make_room(Space space, std::uint64_t address) {
    if (live.find(space, address) == nullptr) return;
    // The observer is asked before the new allocation is live: a late free of the address is that
    // of the old allocation.
    const bool is_freed =
        observer().ends_unfinished_free(address) || observer().finds_late_free(address);
    (void)end(space, address, is_freed ? End::kFreedLate : End::kReplaced, nullptr);
  }
  // Takes the entry, which is no longer live, out of the sums of its level.
  void take_out(const Entry& ended) {
    const Target target = observer().target_of(ended);
    switch (level_of(target.kind)) {
      case Level::kDriver: {
        rounding.remove(target.device, target.kind, ended.address, ended.bytes);
        return observer().physical_changed(target.device);
      }
      case Level::kPool:
        return pools.free(target.pool, ended.bytes);
      case Level::kHost:
        return copy_locations.forget(ended.address, ended.bytes);
      default:
        return;
    }
  }
  void release_handle(std::uint64_t handle, const trace::CallHeader* call) {
    PhysicalMemory* const memory = virtual_memory.release(handle);
    observer().on_release(memory, call);
    if (memory != nullptr) virtual_memory.end_if_unused(*memory, observer(), call);
  }
  void map(const trace::Mapping& call) {
    PhysicalMemory* const memory = virtual_memory.find(call.handle);
    const Mapped entry = observer().mapping_of(call, memory);
    if (memory == nullptr || !virtual_memory.map(*memory, entry, observer())) return;
    const std::int32_t device = observer().target_of(memory->entry).device;
    copy_locations.set(call.address, call.bytes, location_of_mapping(device));
  }
  // Applies the import of another process's memory.
  void import_handle(const trace::Mapping& call) {
    PhysicalMemory* const known =
        call.handle == 0 ? nullptr : virtual_memory.retain(call.handle, 0);
    observer().on_reference(call, known);
    if (call.handle == 0 || known != nullptr) return;
    virtual_memory.create(observer().imported(call), observer());
  }
  void free_reservation(const trace::Mapping& call) {
    const auto freed = virtual_memory.free_reservation(call.address, observer());
    if (!freed) return observer().on_no_effect(call.call.record);
    copy_locations.forget(freed->address, freed->size_bytes);
    observer().on_reservation_freed(call, freed->tag);
  }
  // Ends the memory of a context; true if there was any.
  [[nodiscard]] bool end_context(const trace::ContextCall& call, const CallSite& site) {
    bool any = false;
    const auto belongs = [&](const Entry& entry) {
      const Target target = observer().target_of(entry);
      return contexts.ends_with(call, target.kind, target.device, observer().context_of(entry));
    };
    const auto end = [&](const Entry& ended, const typename Live::Ended* older) {
      observer().on_end(ended, End::kTornDown, nullptr);
      if (older != nullptr) observer().on_ended_replaced(*older);
      take_out(ended);
      any = true;
    };
    if (!live.end_all(belongs, {end_of(call), observer().is_exiting(), site}, end)) {
      has_failed = true;
    }
    return any;
  }
};

}  // namespace gpumemtrace::ledger
