// SPDX-License-Identifier: Apache-2.0
// The driver's virtual memory management: physical memory behind handles, reservations of
// addresses, and mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "trace/ledger/flat_map.hpp"
#include "trace/ledger/mapped_array.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// Address ranges in an array sorted by address. Insertion is slow, which is good enough: there are
// few changes, and mapping itself is slow. Range has begin() and bytes().
template <class Range>
class RangeList {
 public:
  // Index of the first range that begins at or after the address.
  [[nodiscard]] std::size_t first_from(std::uint64_t address) const {
    std::size_t first = 0;
    std::size_t count = ranges_.size();
    while (count > 0) {
      const std::size_t half = count / 2;
      const bool before = ranges_[first + half].begin() < address;
      first = before ? first + half + 1 : first;
      count = before ? count - half - 1 : half;
    }
    return first;
  }
  [[nodiscard]] Range* find(std::uint64_t begin) {
    const std::size_t i = first_from(begin);
    return i < ranges_.size() && ranges_[i].begin() == begin ? &ranges_[i] : nullptr;
  }
  [[nodiscard]] Range* containing(std::uint64_t address) {
    const std::size_t i = first_from(address);
    if (i < ranges_.size() && ranges_[i].begin() == address) {
      return ranges_[i].bytes() != 0 ? &ranges_[i] : nullptr;
    }
    if (i == 0) return nullptr;
    Range& range = ranges_[i - 1];
    return address - range.begin() < range.bytes() ? &range : nullptr;
  }
  [[nodiscard]] Range* add(const Range& range) {
    const std::size_t i = first_from(range.begin());
    return ranges_.insert(i, range) ? &ranges_[i] : nullptr;
  }
  // Adds a range, or replaces the one with the same begin; nullptr without memory.
  Range* set(const Range& range) {
    Range* const known = find(range.begin());
    if (known == nullptr) return add(range);
    *known = range;
    return known;
  }
  void erase(std::size_t first, std::size_t last) { ranges_.erase(first, last); }
  // Calls visit(range) for the ranges that begin within `bytes` from `begin`.
  template <class Visit>
  void for_each_in(std::uint64_t begin, std::uint64_t bytes, Visit&& visit) {
    for (std::size_t i = first_from(begin);
         i < ranges_.size() && ranges_[i].begin() - begin < bytes; ++i) {
      visit(ranges_[i]);
    }
  }
  [[nodiscard]] const MappedArray<Range>& ranges() const { return ranges_; }

 private:
  MappedArray<Range> ranges_;
};

// - Physical memory counts from cuMemCreate until its handle has no reference left and its last
//   mapping is gone, in whichever order.
// - Reservations and mappings are address space: they count as no memory.
// - A reservation from which the framework hands out blocks is a segment. Physical memory that
//   is mapped into it is the framework's.
// - Imported handles are other processes' memory, whose size is known from the first mapping.
// - Entry has the members `address` (for physical memory: its handle) and `bytes`. SegmentTag is
//   the owner's data about a reservation; its is_segment() says whether that is a segment.
// - Owner updates its sums when memory changes:
//     on_handle_lost(physical)     a release was missed: other memory has its handle's
//                                  number now
//     on_joined(physical, tag)     the memory is mapped into the segment, for the first time or
//                                  again
//     on_grown(mapping, tag)       the mapping became a part of the segment
//     on_shrunk(mapping, tag)      the mapping is no longer a part of the segment
//     on_mapped(mapping)           the mapping is new
//     on_unmapped(mapping, its physical)  the mapping is gone
//     on_unreferenced(physical, call)     nothing refers to the memory any more; `call` dropped the
//                                  last reference if that is the present record
//   `physical` and `mapping` are of type Entry. These functions must not change the VirtualMemory.
// - Pointers are valid until the next change. failed() if the system had no memory; results are
//   worthless then.
template <class Entry, class SegmentTag>
class VirtualMemory {
 public:
  struct Physical {
    Entry entry;
    std::uint32_t references = 1;
    std::uint32_t mappings = 0;
    bool is_live = true;

    [[nodiscard]] bool is_unused() const { return is_live && references == 0 && mappings == 0; }
  };
  struct Mapping {
    Entry entry;
    std::uint32_t physical = 0;  // index of the physical memory in physical_

    [[nodiscard]] std::uint64_t begin() const { return entry.address; }
    [[nodiscard]] std::uint64_t bytes() const { return entry.bytes; }
  };
  struct Reservation {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    SegmentTag tag{};

    [[nodiscard]] std::uint64_t begin() const { return address; }
    [[nodiscard]] std::uint64_t bytes() const { return size_bytes; }
  };

  template <class Owner>
  void create(const Entry& entry, Owner&& owner) {
    std::uint32_t index = 0;
    if (unused_.empty()) {
      index = static_cast<std::uint32_t>(physical_.size());
      if (!physical_.push({})) return fail();
    } else {
      index = unused_.back();
      unused_.erase(unused_.size() - 1, unused_.size());
    }
    physical_[index] = {entry, 1, 0, true};
    NamedHandle* const known = handles_.find(entry.address);
    if (known == nullptr) {
      if (handles_.insert({entry.address, index}) == nullptr) fail();
      return;
    }
    // The driver gives a handle's number to new memory only when the old memory has no references
    // left.
    Physical& older = physical_[known->physical];
    known->physical = index;
    older.references = 0;
    owner.on_handle_lost(older.entry);
    end_if_unused(older, owner, nullptr);
  }
  [[nodiscard]] Physical* find(std::uint64_t handle) {
    const NamedHandle* const named = handles_.find(handle);
    return named == nullptr ? nullptr : &physical_[named->physical];
  }
  // Adds a reference to physical memory, found by its handle or, if the handle had been released,
  // by the address of a mapping. nullptr if neither is known.
  Physical* retain(std::uint64_t handle, std::uint64_t address) {
    Physical* memory = find(handle);
    if (memory == nullptr) {
      const Mapping* const mapping = mappings_.containing(address);
      if (mapping == nullptr) return nullptr;
      if (handle != 0 && handles_.insert({handle, mapping->physical}) == nullptr) fail();
      memory = &physical_[mapping->physical];
    }
    ++memory->references;
    return memory;
  }
  // Drops a reference to physical memory. nullptr if the handle is not known; else the caller must
  // call end_if_unused().
  [[nodiscard]] Physical* release(std::uint64_t handle) {
    Physical* const memory = find(handle);
    if (memory != nullptr && --memory->references == 0) handles_.erase(handles_.find(handle));
    return memory;
  }
  template <class Owner>
  void end_if_unused(Physical& memory, Owner&& owner, const trace::CallHeader* call) {
    if (!memory.is_unused()) return;
    owner.on_unreferenced(memory.entry, call);
    memory.is_live = false;
    if (!unused_.push(static_cast<std::uint32_t>(&memory - physical_.data()))) fail();
  }

  void reserve(std::uint64_t address, std::uint64_t bytes, const SegmentTag& tag) {
    if (reservations_.set({address, bytes, tag}) == nullptr) fail();
  }
  // Removes the reservation that begins at the address; its mappings belong to no segment any more.
  // nullopt if there is none.
  template <class Owner>
  [[nodiscard]] std::optional<Reservation> free_reservation(std::uint64_t address, Owner&& owner) {
    const Reservation* const found = reservations_.find(address);
    if (found == nullptr) return std::nullopt;
    const Reservation freed = *found;
    if (freed.tag.is_segment()) {
      mappings_.for_each_in(freed.address, freed.size_bytes,
                            [&](Mapping& mapping) { owner.on_shrunk(mapping.entry, freed.tag); });
    }
    const std::size_t index = reservations_.first_from(address);
    reservations_.erase(index, index + 1);
    return freed;
  }
  // The reservation turns out to be a segment of the framework's allocator.
  template <class Owner>
  void attach_segment(Reservation& reservation, const SegmentTag& tag, Owner&& owner) {
    reservation.tag = tag;
    mappings_.for_each_in(reservation.address, reservation.size_bytes,
                          [&](Mapping& mapping) { join(mapping, tag, owner); });
  }

  // Maps a part of the physical memory; false if the address is mapped already.
  template <class Owner>
  [[nodiscard]] bool map(Physical& memory, const Entry& entry, Owner&& owner) {
    if (mappings_.find(entry.address) != nullptr) return false;
    const auto index = static_cast<std::uint32_t>(&memory - physical_.data());
    Mapping* const added = mappings_.add({entry, index});
    if (added == nullptr) {
      fail();
      return false;
    }
    ++memory.mappings;
    owner.on_mapped(added->entry);
    const Reservation* const around = reservations_.containing(entry.address);
    if (around != nullptr && around->tag.is_segment()) join(*added, around->tag, owner);
    return true;
  }
  // Removes all mappings that begin in the range.
  template <class Owner>
  void unmap(std::uint64_t address, std::uint64_t bytes, Owner&& owner,
             const trace::CallHeader* call) {
    const std::size_t first = mappings_.first_from(address);
    std::size_t last = first;
    mappings_.for_each_in(address, bytes, [&](Mapping& mapping) {
      Physical& memory = physical_[mapping.physical];
      --memory.mappings;
      ++last;
      owner.on_unmapped(mapping.entry, memory.entry);
      const Reservation* const around = reservations_.containing(mapping.begin());
      if (around != nullptr && around->tag.is_segment())
        owner.on_shrunk(mapping.entry, around->tag);
      end_if_unused(memory, owner, call);
    });
    mappings_.erase(first, last);
  }

  [[nodiscard]] RangeList<Mapping>& mappings() { return mappings_; }
  [[nodiscard]] const RangeList<Mapping>& mappings() const { return mappings_; }
  [[nodiscard]] RangeList<Reservation>& reservations() { return reservations_; }
  [[nodiscard]] Physical& physical_of(const Mapping& mapping) {
    return physical_[mapping.physical];
  }
  template <class Visit>
  void for_each_physical(Visit&& visit) const {
    for (const Physical& memory : physical_) {
      if (memory.is_live) visit(memory);
    }
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  struct NamedHandle {
    std::uint64_t handle = 0;
    std::uint32_t physical = 0;  // index of the physical memory in physical_
  };

  template <class Owner>
  void join(Mapping& mapping, const SegmentTag& tag, Owner& owner) {
    owner.on_joined(physical_[mapping.physical].entry, tag);
    owner.on_grown(mapping.entry, tag);
  }
  void fail() { failed_ = true; }

  MappedArray<Physical> physical_;
  MappedArray<std::uint32_t> unused_;  // indexes of physical_ that can be taken again
  FlatMap<NamedHandle, &NamedHandle::handle, MappedArray> handles_;
  RangeList<Mapping> mappings_;
  RangeList<Reservation> reservations_;
  bool failed_ = false;
};

}  // namespace gpumemtrace::ledger
