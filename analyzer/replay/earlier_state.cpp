// SPDX-License-Identifier: Apache-2.0
// The recorded allocator takes over the state in which recording began: its segments and blocks.
#include <algorithm>
#include <iterator>

#include "analyzer/replay/recorded_allocator.hpp"

namespace gpumemtrace::analyzer::replay {

void RecordedAllocator::adopt(const EarlierSegment& segment) {
  if (segment.bytes == 0) return;
  proof_.has_earlier_state = true;
  allocations_[segment.address] = {segment.bytes, true};
  segment_bytes_ += segment.bytes;
  const Stream stream(segment.stream);
  auto& classes = segment.pool == 0 ? first_of_stream_ : classes_of_earlier_pools_[segment.pool];
  const auto [known, is_new] = classes.try_emplace(stream, 0);
  if (is_new) known->second = add_class(stream);
  streams_prove_nothing_ |= segment.pool != 0;
  const bool is_small = segment.bytes == kSmallSegmentBytes;
  peak_.add_segment(segment.address, segment.bytes, {known->second, is_small});
  add_parts(earlier_free_,
            {allocator_.adopt_segment(segment.address, segment.bytes, known->second, is_small)});
}

BlockId RecordedAllocator::part_around(const FreeParts& parts, std::uint64_t address) {
  const auto after = parts.upper_bound(address);
  return after == parts.begin() ? 0 : std::prev(after)->second;
}

void RecordedAllocator::add_parts(FreeParts& parts, std::initializer_list<BlockId> blocks) const {
  for (const BlockId block : blocks) {
    if (block != 0) parts[allocator_.address_of(block)] = block;
  }
}

// Adopts an address space from before recording as an expandable segment, with those mappings of
// the thread that lie in it.
void RecordedAllocator::adopt_pages(Thread& thread, Reservation& space, bool is_small) {
  constexpr std::size_t kMostSpaces = 4096;  // PyTorch reserves two address spaces per stream
  proof_.has_earlier_state = true;
  if (reserved_classes_.size() > kMostSpaces) return report_mismatch("too many address spaces");
  const ClassId block_class = class_of_reservation(thread, space.address, is_small);
  FreeParts unmapped;
  add_parts(unmapped,
            {allocator_.adopt_space(space.address, space.size_bytes, block_class, is_small)});
  std::erase_if(thread.calls, [&](const DriverCall& call) {
    if (call.kind != DriverCall::Kind::kMapped || call.address < space.address) return false;
    const CachingAllocator::Parts parts =
        allocator_.adopt_pages(part_around(unmapped, call.address), call.address, call.bytes);
    add_parts(unmapped, {parts.behind});
    add_parts(earlier_free_, {parts.piece});
    if (parts.piece != 0) add_pages(call.address, call.bytes, {block_class, is_small});
    return parts.piece != 0;
  });
}

// Adopts the address spaces of expandable segments in which no block lies; the size of their pages
// shows whether they are for small blocks.
void RecordedAllocator::adopt_free_spaces() {
  for (const auto& [address, stream] : earlier_spaces_) {
    if (!compares()) break;
    Reservation* const space = reservations_.containing(address);
    if (space == nullptr || space->block_class) continue;
    for (auto& [writer, thread] : threads_) {
      const auto page = std::ranges::find_if(thread.calls, [&](const DriverCall& call) {
        return call.kind == DriverCall::Kind::kMapped && call.address - address < space->size_bytes;
      });
      if (page == thread.calls.end()) continue;
      mark_segment(page->address);
      switch_stream(thread, Stream(stream));
      adopt_pages(thread, *space, page->bytes <= kSmallSegmentBytes);
      break;
    }
  }
  earlier_spaces_.clear();
}

// Adopts a block that existed when recording began; other replays get it as a request.
void RecordedAllocator::adopt(std::uint32_t writer, const trace::Block& block) {
  proof_.has_earlier_state = true;
  const auto bytes = static_cast<std::uint64_t>(block.bytes);
  Thread& thread = threads_[writer];
  switch_stream(thread, Stream(block.stream));
  mark_segment(block.address);
  const BlockId placed = compares() ? place_earlier(thread, block.address, bytes) : 0;
  if (placed == 0)
    report_mismatch("a block that is older than all events lies in no known segment");
  has_unknown_sizes_ |= block.requested == 0;
  const std::uint64_t asked =
      block.requested != 0 ? block.requested : allocator_.settings().largest_within(bytes);
  const LiveBlock live{slots_.take(), placed, {block.address, bytes, asked, block.stack, 0}};
  live_[block.address] = live;
  const ClassId block_class = placed != 0 ? allocator_.class_of_block(placed) : thread.last_class;
  out_.add({EventKind::kRequest, block_class, live.slot, block.stack, asked, asked});
}

// Returns the replayed block for a block from before recording; 0 if no free memory lies at its
// address. The first block in an expandable segment shows which stream the segment belongs to.
BlockId RecordedAllocator::place_earlier(Thread& thread, std::uint64_t address,
                                         std::uint64_t bytes) {
  Reservation* const space = reservations_.containing(address);
  if (space != nullptr && !space->block_class)
    adopt_pages(thread, *space, bytes <= kLargestSmallBytes);
  const CachingAllocator::Parts parts =
      allocator_.adopt_block(part_around(earlier_free_, address), address, bytes);
  if (parts.piece == 0) return 0;
  earlier_free_.erase(address);
  add_parts(earlier_free_, {parts.behind});
  return parts.piece;
}

}  // namespace gpumemtrace::analyzer::replay
