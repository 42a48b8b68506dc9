// SPDX-License-Identifier: Apache-2.0
#include "analyzer/snapshot/undo.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "analyzer/base/words.hpp"

namespace gpumemtrace::analyzer::snapshot {
namespace {

// Undoes one event after the other. Each function returns the reason why the event does not fit, or
// nullptr.
class Undo {
 public:
  explicit Undo(HeldMemory& memory) : memory_(memory) {}

  [[nodiscard]] const char* undo(const Event& event) {
    switch (event.action) {
      case Action::alloc:
        return undo_alloc(event);
      case Action::free_requested:
        return undo_free_requested(event);
      case Action::free_completed:
        return undo_free_completed(event);
      case Action::segment_alloc:
        return undo_segment_alloc(event);
      case Action::segment_free:
        return undo_segment_free(event);
      case Action::segment_map:
        return undo_segment_map(event);
      case Action::segment_unmap:
        return undo_segment_unmap(event);
      default:
        return nullptr;
    }
  }

 private:
  const char* undo_alloc(const Event& event) {
    const auto block = memory_.blocks.find(event.address);
    if (block == memory_.blocks.end()) return "no block was in use there";
    if (block->second.waits) return "the block there had been freed";
    if (!block->second.can_be_of(event.bytes)) return "the block there has another size";
    memory_.blocks.erase(block);
    return nullptr;
  }

  const char* undo_free_requested(const Event& event) {
    const auto block = memory_.blocks.find(event.address);
    if (block == memory_.blocks.end() || !block->second.waits) return "no block was freed there";
    if (!block->second.can_be_of(event.bytes)) return "the block there has another size";
    block->second.waits = false;
    return nullptr;
  }

  const char* undo_free_completed(const Event& event) {
    // Before the event, the block waited for other streams. Its full size and stack are not known.
    const HeldBlock block{event.bytes, 0, true, {}};
    const auto segment = memory_.segment_around(event.address);
    if (segment == memory_.segments.end()) return "no segment was there";
    if (block.least_bytes() > segment->second.bytes - (event.address - segment->first)) {
      return "its segment was too small";
    }
    if (!memory_.is_free(event.address, block.least_bytes())) return "the memory was in use";
    memory_.blocks[event.address] = block;
    return nullptr;
  }

  const char* undo_segment_alloc(const Event& event) {
    const auto segment = memory_.segments.find(event.address);
    if (segment == memory_.segments.end() || segment->second.bytes != event.bytes) {
      return "no segment of its size was there";
    }
    if (!memory_.is_free(event.address, event.bytes)) return "a block was older than its segment";
    memory_.segments.erase(segment);
    return nullptr;
  }

  const char* undo_segment_free(const Event& event) {
    if (!is_unused(event)) return "another segment was there";
    memory_.segments[event.address] = segment_of(event, false);
    memory_.segments[event.address].stack = {};
    return nullptr;
  }

  const char* undo_segment_map(const Event& event) {
    if (!memory_.is_free(event.address, event.bytes)) return "a block was older than its pages";
    return memory_.unmap(event.address, event.bytes) ? nullptr : "the pages were not mapped";
  }

  const char* undo_segment_unmap(const Event& event) {
    if (!is_unused(event)) return "other pages were there";
    HeldSegment pages = segment_of(event, true);
    pages.stack = {};
    memory_.map(event.address, pages);
    return nullptr;
  }

  // True if no segment begins in the event's range or reaches into it.
  [[nodiscard]] bool is_unused(const Event& event) const {
    const auto next = memory_.segments.lower_bound(event.address);
    const bool is_free_behind =
        next == memory_.segments.end() || next->first - event.address >= event.bytes;
    return is_free_behind && memory_.segment_around(event.address) == memory_.segments.end();
  }

  HeldMemory& memory_;
};

}  // namespace

HeldSegment segment_of(const Event& event, bool is_expandable) {
  constexpr std::uint64_t kSmallSegmentBytes = 2 << 20;
  constexpr std::uint64_t kLargePageBytes = 20 << 20;
  // An event of an expandable segment can map several small pages: only multiples of the size of a
  // large page count as large.
  const bool is_large =
      is_expandable ? event.bytes % kLargePageBytes == 0 : event.bytes > kSmallSegmentBytes;
  return {event.bytes, event.stream, is_large, is_expandable, event.pool, event.stack};
}

std::uint64_t HeldBlock::least_bytes() const {
  return std::max({bytes, requested_bytes, std::uint64_t{1}});
}

std::map<std::uint64_t, HeldSegment>::const_iterator HeldMemory::segment_around(
    std::uint64_t address) const {
  const auto after = segments.upper_bound(address);
  if (after == segments.begin()) return segments.end();
  const auto segment = std::prev(after);
  return address - segment->first < segment->second.bytes ? segment : segments.end();
}

bool HeldMemory::is_free(std::uint64_t address, std::uint64_t bytes) const {
  const auto next = blocks.lower_bound(address);
  if (next != blocks.end() && next->first - address < bytes) return false;
  if (next == blocks.begin()) return true;
  const auto before = std::prev(next);
  return address - before->first >= before->second.least_bytes();
}

void HeldMemory::map(std::uint64_t address, HeldSegment pages) {
  const auto next = segments.find(address + pages.bytes);
  if (next != segments.end() && next->second.is_expandable) {
    pages.bytes += next->second.bytes;
    segments.erase(next);
  }
  const auto after = segments.upper_bound(address);
  if (after != segments.begin()) {
    const auto before = std::prev(after);
    if (before->second.is_expandable && before->first + before->second.bytes == address) {
      before->second.bytes += pages.bytes;
      return;
    }
  }
  segments[address] = pages;
}

bool HeldMemory::unmap(std::uint64_t address, std::uint64_t bytes) {
  const auto found = segment_around(address);
  if (found == segments.end() || !found->second.is_expandable) return false;
  const std::uint64_t begin = found->first;
  const std::uint64_t end = begin + found->second.bytes;
  if (bytes > end - address) return false;
  HeldSegment rest = found->second;
  segments.erase(found);
  if (address != begin) {
    rest.bytes = address - begin;
    segments[begin] = rest;
  }
  if (address + bytes != end) {
    rest.bytes = end - address - bytes;
    segments[address + bytes] = rest;
  }
  return true;
}

HeldMemory memory_at_end(const Snapshot& snapshot, std::span<const Segment* const> segments) {
  HeldMemory memory;
  for (const Segment* segment : segments) {
    const HeldSegment held{segment->bytes,         segment->stream, segment->is_large,
                           segment->is_expandable, segment->pool,   segment->stack};
    if (held.is_expandable) {
      memory.map(segment->address, held);
    } else {
      memory.segments[segment->address] = held;
    }
    for (const Block& block : snapshot.blocks_of(*segment)) {
      if (block.state == BlockState::free) continue;
      memory.blocks[block.address] = {block.requested_bytes.value_or(0), block.bytes,
                                      block.state == BlockState::pending_free, block.stack};
    }
  }
  return memory;
}

UndoneHistory undo_history(HeldMemory at_end, std::span<const Event> events) {
  UndoneHistory history{std::move(at_end), events.size(), {}};
  Undo undo(history.before);
  while (history.first_event != 0) {
    const Event& event = events[history.first_event - 1];
    if (const char* reason = undo.undo(event)) {
      char text[160];
      std::snprintf(text, sizeof text, "event %zu (%s of %llu bytes at 0x%llx): %s",
                    history.first_event, std::string(analyzer::name_of(event.action)).c_str(),
                    static_cast<unsigned long long>(event.bytes),
                    static_cast<unsigned long long>(event.address), reason);
      history.misfit = text;
      break;
    }
    --history.first_event;
  }
  return history;
}

}  // namespace gpumemtrace::analyzer::snapshot
