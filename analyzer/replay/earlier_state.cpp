// SPDX-License-Identifier: Apache-2.0
// The recorded allocator takes over the state in which recording began: its segments and blocks.
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
  streams_do_not_tell_ |= segment.pool != 0;
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

// The first block in an expandable segment shows whose the segment is.
void RecordedAllocator::adopt_expandable(Thread& thread, const trace::Block& block) {
  Reservation* const around = reservations_.containing(block.address);
  if (around == nullptr || around->of) return;
  const bool is_small = static_cast<std::uint64_t>(block.bytes) <= kLargestSmallBytes;
  const ClassId of = class_of_reservation(thread, block.address, is_small);
  FreeParts unmapped;
  add_parts(unmapped, {allocator_.adopt_space(around->address, around->size_bytes, of, is_small)});
  std::erase_if(thread.calls, [&](const DriverCall& call) {
    if (call.kind != DriverCall::Kind::kMapped || call.address < around->address) return false;
    const CachingAllocator::Parts parts =
        allocator_.adopt_pages(part_around(unmapped, call.address), call.address, call.bytes);
    add_parts(unmapped, {parts.behind});
    add_parts(earlier_free_, {parts.piece});
    if (parts.piece != 0) add_pages(call.address, call.bytes, {of, is_small});
    return parts.piece != 0;
  });
}

void RecordedAllocator::adopt(std::uint32_t writer, const trace::Block& block) {
  proof_.has_earlier_state = true;
  const auto bytes = static_cast<std::uint64_t>(block.bytes);
  Thread& thread = threads_[writer];
  switch_stream(thread, Stream(block.stream));
  mark_segment(block.address);
  adopt_expandable(thread, block);
  const BlockId around = part_around(earlier_free_, block.address);
  const CachingAllocator::Parts parts = allocator_.adopt_block(around, block.address, bytes);
  if (parts.piece == 0) {
    return report_mismatch("a block that is older than all events lies in no known segment");
  }
  earlier_free_.erase(block.address);
  add_parts(earlier_free_, {parts.behind});
  has_unknown_sizes_ |= block.requested == 0;
  const std::uint64_t asked =
      block.requested != 0 ? block.requested : allocator_.settings().largest_within(bytes);
  const LiveBlock live{slots_.take(), parts.piece, {block.address, bytes, asked, block.stack, 0}};
  live_[block.address] = live;
  out_.add({EventKind::kRequest, allocator_.class_of_block(parts.piece), live.slot, block.stack,
            asked, asked});
}

}  // namespace gpumemtrace::analyzer::replay
