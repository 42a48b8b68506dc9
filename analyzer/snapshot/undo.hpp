// SPDX-License-Identifier: Apache-2.0
// Computes the state of PyTorch's allocator before its recorded history began. A snapshot has the
// complete state at its end, even if events of the history were lost: undoing the events from the
// last one backwards gives the state before each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "analyzer/snapshot/snapshot.hpp"

namespace gpumemtrace::analyzer::snapshot {

// Memory that the allocator has from the driver: a segment, or neighbouring mapped pages of an
// expandable segment.
struct HeldSegment {
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  bool is_large = false;
  bool is_expandable = false;
  PoolId pool;
  StackId stack;  // empty if the memory went back to the driver before the snapshot
};

// The segment or pages that an event of the driver adds or removes.
[[nodiscard]] HeldSegment segment_of(const Event& event, bool is_expandable);

// A block that is not free; a block that was freed and waits for other streams counts, too.
struct HeldBlock {
  std::uint64_t requested_bytes = 0;  // 0 if the requested size is not known
  std::uint64_t bytes = 0;            // the size; 0 = not known: it was freed before the snapshot
  bool waits = false;
  StackId stack;  // empty if the block was freed before the snapshot

  [[nodiscard]] bool can_be_of(std::uint64_t requested) const {
    return requested_bytes == 0 ? requested <= bytes : requested == requested_bytes;
  }
  // The least bytes that the block takes of its segment.
  [[nodiscard]] std::uint64_t least_bytes() const;
};

// The memory of one device, or the host's pinned memory, at one time. Keys are addresses.
struct HeldMemory {
  std::map<std::uint64_t, HeldSegment> segments;
  std::map<std::uint64_t, HeldBlock> blocks;

  // The segment that contains the address; end() if there is none.
  [[nodiscard]] std::map<std::uint64_t, HeldSegment>::const_iterator segment_around(
      std::uint64_t address) const;
  // True if the range has only free memory: no block begins in it, or reaches into it.
  [[nodiscard]] bool is_free(std::uint64_t address, std::uint64_t bytes) const;
  // Adds mapped pages of an expandable segment.
  void map(std::uint64_t address, HeldSegment pages);
  // Removes mapped pages. Returns false, with nothing changed, if not all of them are mapped.
  [[nodiscard]] bool unmap(std::uint64_t address, std::uint64_t bytes);
};

struct UndoneHistory {
  HeldMemory before;            // the memory before the event `first_event`
  std::size_t first_event = 0;  // index of the earliest event that could be undone
  std::string misfit;           // why the event before that does not fit; empty if all do
};

// The memory at the time of the snapshot. `segments`: the segments of one device.
[[nodiscard]] HeldMemory memory_at_end(const Snapshot& snapshot,
                                       std::span<const Segment* const> segments);

// Undoes the events of one device from the last one backwards, up to the first that does not fit to
// the memory after it.
[[nodiscard]] UndoneHistory undo_history(HeldMemory at_end, std::span<const Event> events);

}  // namespace gpumemtrace::analyzer::snapshot
