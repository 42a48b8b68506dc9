// SPDX-License-Identifier: Apache-2.0
// Virtual memory management of one process.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/accounts/accounts.hpp"
#include "trace/ledger/virtual_memory.hpp"

namespace gpumemtrace::analyzer {

// - Every change is counted in the accounts. Mappings have accounts of their own level, so that a
//   moment of the past knows what was mapped.
// - The link of an entry is the segment that it became a part of; a reservation's tag is the
//   segment that was found in it, 0 where no framework block has been seen there.
class VirtualMemory {
 public:
  using Live = ledger::VirtualMemory<LiveAllocation, std::uint32_t>;
  using Mapping = Live::Mapping;
  using Reservation = Live::Reservation;
  using Removed = std::vector<LiveAllocation>;

  explicit VirtualMemory(Accounts& accounts) : accounts_(accounts) {}

  // False where the handle is live already; the older memory then goes on without a name.
  [[nodiscard]] bool create(const LiveAllocation& entry);
  // False where neither the handle nor the address is known.
  [[nodiscard]] bool retain(std::uint64_t handle, std::uint64_t address) {
    return live_.retain(handle, address) != nullptr;
  }
  // Drops a reference. False where the handle is not known. Appends the memory to `freed` if that
  // is gone, too.
  [[nodiscard]] bool release(std::uint64_t handle, Removed& freed);

  void reserve(std::uint64_t address, std::uint64_t bytes, std::uint32_t segment) {
    live_.reserve(address, bytes, segment);
  }
  void free_reservation(std::uint64_t address) { live_.free_reservation(address); }

  // Maps a part of the handle's memory; nullptr where the handle is not known or the address is
  // mapped.
  const Mapping* map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle,
                     std::uint64_t now);
  // Removes all mappings in the range. Returns what they were and appends to `freed` the physical
  // memory that went with them.
  Removed unmap(std::uint64_t address, std::uint64_t bytes, Removed& freed);

  [[nodiscard]] const Mapping* find_mapping(std::uint64_t address) {
    return live_.mappings().containing(address);
  }
  // The reservation around the address; nullptr where there is none.
  [[nodiscard]] Reservation* find_reservation(std::uint64_t address) {
    return live_.reservations().containing(address);
  }
  // The framework's segment lies in the reservation. Calls visit(entry) for what is mapped there.
  template <class Visit>
  void attach_segment(Reservation& reservation, std::uint32_t segment, Visit&& visit) {
    reservation.tag = segment;
    live_.mappings().for_each_in(reservation.address, reservation.size_bytes,
                                 [&](Mapping& mapping) {
                                   mapping.entry.link = segment;
                                   join_segment(live_.physical_of(mapping).entry, segment);
                                   visit(mapping.entry);
                                 });
  }

  template <class Visit>
  void for_each_physical(Visit&& visit) const {
    live_.for_each_physical([&](const Live::Physical& memory) { visit(memory.entry); });
  }
  // The memory whose handles have references left.
  template <class Visit>
  void for_each_handle(Visit&& visit) const {
    live_.for_each_physical([&](const Live::Physical& memory) {
      if (memory.references != 0) visit(memory.entry);
    });
  }
  template <class Visit>
  void for_each_mapping(Visit&& visit) const {
    for (const Mapping& mapping : live_.mappings().ranges()) visit(mapping.entry);
  }
  [[nodiscard]] bool failed() const { return live_.failed(); }

 private:
  void join_segment(LiveAllocation& physical, std::uint32_t segment);
  // Ends the memory where nothing needs it any more, and appends it to `freed`.
  void end_if_unused(Live::Physical& memory, Removed& freed);

  Accounts& accounts_;
  Live live_;
};

}  // namespace gpumemtrace::analyzer
