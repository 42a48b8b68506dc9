// SPDX-License-Identifier: Apache-2.0
// The state of PyTorch's allocator before its recorded history began. A snapshot has the state at
// its end, and it is complete whatever the history lost: undoing the events from the last one
// backwards gives the state before each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "analyzer/snapshot/snapshot.hpp"

namespace gpumemtrace::analyzer::snapshot {

// Memory that the allocator has from the driver: a segment, or the mapped pages of an expandable
// one that lie side by side.
struct HeldSegment {
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  bool is_large = false;
  bool is_expandable = false;
  PoolId pool;
  StackId stack;  // none if it was given back before the snapshot
};

// As an event of the driver tells it.
[[nodiscard]] HeldSegment segment_of(const Event& event, bool is_expandable);

// A block that is not free: also one that was freed and waits for other streams.
struct HeldBlock {
  std::uint64_t requested_bytes = 0;  // 0 = not known
  std::uint64_t bytes = 0;  // as given; 0 = not known, because it was freed before the snapshot
  bool waits = false;
  StackId stack;  // none if it was freed before the snapshot

  [[nodiscard]] bool can_be_of(std::uint64_t requested) const {
    return requested_bytes == 0 ? requested <= bytes : requested == requested_bytes;
  }
  // The least that it takes of its segment.
  [[nodiscard]] std::uint64_t least_bytes() const;
};

// The memory of one device, or the host's pinned memory, at one time. Keys are addresses.
struct HeldMemory {
  std::map<std::uint64_t, HeldSegment> segments;
  std::map<std::uint64_t, HeldBlock> blocks;

  // The segment that contains the address; end() if there is none.
  [[nodiscard]] std::map<std::uint64_t, HeldSegment>::const_iterator segment_around(
      std::uint64_t address) const;
  // True if nothing but free memory is there: no block begins in it, or reaches into it.
  [[nodiscard]] bool is_free(std::uint64_t address, std::uint64_t bytes) const;
  // Pages of an expandable segment.
  void map(std::uint64_t address, HeldSegment pages);
  // False, with nothing changed, if not all of them are mapped.
  [[nodiscard]] bool unmap(std::uint64_t address, std::uint64_t bytes);
};

struct UndoneHistory {
  HeldMemory before;            // the first event that is claimed
  std::size_t first_event = 0;  // the events before it do not fit to what came later
  std::string misfit;           // the reason; empty = all fit
};

// The memory at the time of the snapshot. `segments`: of one device.
[[nodiscard]] HeldMemory memory_at_end(const Snapshot& snapshot,
                                       std::span<const Segment* const> segments);

// Undoes the events of one device from the last one on, as far as each fits.
[[nodiscard]] UndoneHistory undo_history(HeldMemory at_end, std::span<const Event> events);

}  // namespace gpumemtrace::analyzer::snapshot
