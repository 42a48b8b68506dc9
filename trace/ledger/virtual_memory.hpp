// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: physical memory behind handles, reservations, mappings.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/ledger/flat_map.hpp"
#include "trace/ledger/mapped_array.hpp"

namespace gpumemtrace::ledger {

// Sorted by address, for few changes: mapping is slow itself. Range has begin() and bytes().
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
  void erase(std::size_t first, std::size_t last) { ranges_.erase(first, last); }
  // Calls visit(range) for those that begin in the stretch.
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

// - Physical memory costs its bytes from cuMemCreate until its handle has no reference left and
//   its last mapping is gone, in whichever order.
// - Reservations and mappings are address space: they cost nothing.
// - Imported handles are other processes' memory; their size shows with their first mapping.
// - Entry has the members `address` (of physical memory: its handle) and `bytes`; ReservationTag is
//   what the user of this class keeps with a reservation.
// - Pointers are valid until the next change. failed() where the system had no memory; what is
//   asked then is worthless.
template <class Entry, class ReservationTag>
class VirtualMemory {
 public:
  struct Physical {
    Entry entry;
    std::uint32_t references = 1;
    std::uint32_t mappings = 0;
    bool is_live = true;

    // It costs nothing any more: the caller ends it.
    [[nodiscard]] bool is_unused() const { return is_live && references == 0 && mappings == 0; }
  };
  struct Mapping {
    Entry entry;
    std::uint32_t physical = 0;  // index

    [[nodiscard]] std::uint64_t begin() const { return entry.address; }
    [[nodiscard]] std::uint64_t bytes() const { return entry.bytes; }
  };
  struct Reservation {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    ReservationTag tag{};

    [[nodiscard]] std::uint64_t begin() const { return address; }
    [[nodiscard]] std::uint64_t bytes() const { return size_bytes; }
  };

  // The memory whose live handle had this number, and which goes on without a name: the driver
  // reuses a handle's number only when its references are gone, so a release was missed. nullptr
  // where the number was free.
  [[nodiscard]] Physical* create(const Entry& entry) {
    Physical* older = nullptr;
    std::uint32_t index = 0;
    if (unused_.empty()) {
      index = static_cast<std::uint32_t>(physical_.size());
      if (!physical_.push({})) return fail();
    } else {
      index = unused_.back();
      unused_.erase(unused_.size() - 1, unused_.size());
    }
    physical_[index] = {entry, 1, 0, true};
    if (NamedHandle* const known = handles_.find(entry.address)) {
      older = &physical_[known->physical];
      older->references = 0;
      known->physical = index;
    } else if (handles_.insert({entry.address, index}) == nullptr) {
      return fail();
    }
    return older;
  }
  [[nodiscard]] Physical* find(std::uint64_t handle) {
    const NamedHandle* const named = handles_.find(handle);
    return named == nullptr ? nullptr : &physical_[named->physical];
  }
  // One more reference to memory by its handle or, where its handle had been released, by where
  // it is mapped. nullptr where neither is known.
  Physical* retain(std::uint64_t handle, std::uint64_t address) {
    Physical* memory = find(handle);
    if (memory == nullptr) {
      const Mapping* const mapping = mappings_.containing(address);
      if (mapping == nullptr) return nullptr;
      if (handle != 0 && handles_.insert({handle, mapping->physical}) == nullptr) return fail();
      memory = &physical_[mapping->physical];
    }
    ++memory->references;
    return memory;
  }
  // Drops a reference; nullptr where the handle is not known.
  [[nodiscard]] Physical* release(std::uint64_t handle) {
    Physical* const memory = find(handle);
    if (memory != nullptr && --memory->references == 0) handles_.erase(handles_.find(handle));
    return memory;
  }
  // Forgets memory that is unused.
  void end(Physical& memory) {
    memory.is_live = false;
    if (!unused_.push(static_cast<std::uint32_t>(&memory - physical_.data()))) fail();
  }

  void reserve(std::uint64_t address, std::uint64_t bytes, const ReservationTag& tag) {
    const Reservation reservation{address, bytes, tag};
    if (Reservation* const known = reservations_.find(address)) {
      *known = reservation;
    } else if (reservations_.add(reservation) == nullptr) {
      fail();
    }
  }
  void free_reservation(std::uint64_t address) {
    const std::size_t index = reservations_.first_from(address);
    reservations_.erase(index, index + 1);
  }

  // Maps a part of the memory; nullptr where the address is mapped already.
  Mapping* map(Physical& memory, const Entry& entry) {
    if (mappings_.find(entry.address) != nullptr) return nullptr;
    ++memory.mappings;
    const auto index = static_cast<std::uint32_t>(&memory - physical_.data());
    Mapping* const added = mappings_.add({entry, index});
    if (added == nullptr) fail();
    return added;
  }
  // Removes all mappings that begin in the range. Calls unmapped(mapping, its memory) for each.
  template <class Visit>
  void unmap(std::uint64_t address, std::uint64_t bytes, Visit&& unmapped) {
    const std::size_t first = mappings_.first_from(address);
    std::size_t last = first;
    mappings_.for_each_in(address, bytes, [&](const Mapping& mapping) {
      Physical& memory = physical_[mapping.physical];
      --memory.mappings;
      ++last;
      unmapped(mapping, memory);
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
    std::uint32_t physical = 0;  // index
  };

  std::nullptr_t fail() {
    failed_ = true;
    return nullptr;
  }

  MappedArray<Physical> physical_;
  MappedArray<std::uint32_t> unused_;  // indexes of physical_ that can be taken again
  FlatMap<NamedHandle, &NamedHandle::handle, MappedArray> handles_;
  RangeList<Mapping> mappings_;
  RangeList<Reservation> reservations_;
  bool failed_ = false;
};

}  // namespace gpumemtrace::ledger
