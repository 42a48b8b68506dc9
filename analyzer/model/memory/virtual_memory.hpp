// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: physical memory behind handles, reservations, mappings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "analyzer/model/accounts/accounts.hpp"

namespace gpumemtrace::analyzer {

// - Physical memory costs its bytes from cuMemCreate until its handle has no reference left and
//   its last mapping is gone, in whichever order.
// - Reservations and mappings are address space: they cost nothing.
// - Imported handles are other processes' memory; their size shows with their first mapping.
// - Mappings have accounts of their own level, so that a moment of the past knows what was mapped.
class VirtualMemory {
 public:
  struct Mapping {
    LiveAllocation entry;        // its link is the segment that it became a part of
    std::uint32_t physical = 0;  // index
  };
  struct Reservation {
    std::uint64_t bytes = 0;
    std::uint32_t segment = 0;  // 0 = no framework block has been seen in it
  };
  using Removed = std::vector<LiveAllocation>;

  explicit VirtualMemory(Accounts& accounts) : accounts_(accounts) {}

  // False where the handle is live already; the older memory then goes on without a name.
  bool create(const LiveAllocation& entry);
  // One more reference to memory by its handle or, where its handle had been released, by where
  // it is mapped. False where neither is known.
  bool retain(std::uint64_t handle, std::uint64_t address);
  // Drops a reference. False where the handle is not known. Appends the memory to `freed` if that
  // is gone, too.
  bool release(std::uint64_t handle, Removed& freed);
  [[nodiscard]] bool knows(std::uint64_t handle) const { return handles_.count(handle) != 0; }

  void reserve(std::uint64_t address, std::uint64_t bytes);
  void free_reservation(std::uint64_t address) { reservations_.erase(address); }

  // Maps a part of the handle's memory; nullptr where the handle is not known.
  Mapping* map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle, std::uint64_t now);
  // Removes all mappings in the range. Returns what they were and appends to `freed` the physical
  // memory that went with them.
  Removed unmap(std::uint64_t address, std::uint64_t bytes, Removed& freed);

  [[nodiscard]] Mapping* find_mapping(std::uint64_t address);
  // The reservation around the address and its begin; nullptr where there is none.
  [[nodiscard]] Reservation* find_reservation(std::uint64_t address, std::uint64_t& begin);
  // The framework's segment `segment` lies in the reservation that begins at `begin`.
  void attach_segment(std::uint64_t begin, Reservation& reservation, std::uint32_t segment,
                      const std::function<void(const LiveAllocation&)>& visit_mapping);

  template <class Visit>
  void for_each_physical(Visit&& visit) const {
    for (const Physical& physical : physical_) {
      if (physical.live) visit(physical.entry);
    }
  }
  // The memory whose handles have references left.
  template <class Visit>
  void for_each_handle(Visit&& visit) const {
    for (const Physical& physical : physical_) {
      if (physical.live && physical.references != 0) visit(physical.entry);
    }
  }
  template <class Visit>
  void for_each_mapping(Visit&& visit) const {
    for (const auto& [address, mapping] : mappings_) visit(mapping.entry);
  }

 private:
  struct Physical {
    LiveAllocation entry;
    std::uint32_t references = 1;
    std::uint32_t mappings = 0;
    bool live = false;
  };

  bool free_if_unused(std::uint32_t index);

  Accounts& accounts_;
  std::vector<Physical> physical_;
  std::vector<std::uint32_t> unused_;  // indexes of physical_ that can be taken again
  std::unordered_map<std::uint64_t, std::uint32_t> handles_;
  std::map<std::uint64_t, Reservation> reservations_;
  std::map<std::uint64_t, Mapping> mappings_;
};

}  // namespace gpumemtrace::analyzer
