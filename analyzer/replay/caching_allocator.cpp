// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/caching_allocator.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer::replay {

CachingAllocator::CachingAllocator(const AllocatorSettings& settings, const TorchRules& rules,
                                   SegmentSource& source)
    : settings_(settings), rules_(rules), source_(&source) {}

CachingAllocator::Request CachingAllocator::request_of(std::uint64_t requested_bytes,
                                                       ClassId block_class) const {
  const std::uint64_t rounded = settings_.round_request(requested_bytes);
  return {rounded, block_class, rounded <= kLargestSmallBytes};
}

BlockId CachingAllocator::new_id() {
  if (unused_.empty()) {
    blocks_.emplace_back();
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  const BlockId id = unused_.back();
  unused_.pop_back();
  return id;
}

// Makes a block that is a whole segment, and puts it in no list.
BlockId CachingAllocator::new_block(const Request& request, std::uint64_t address,
                                    std::uint64_t bytes) {
  const BlockId id = new_id();
  Block block;
  block.address = address;
  block.segment = address;
  block.bytes = bytes;
  block.block_class = request.block_class;
  block.small = request.small;
  blocks_[id] = block;
  return id;
}

void CachingAllocator::delete_block(BlockId block) { unused_.push_back(block); }

FreeBlocks::Entry CachingAllocator::entry_of(BlockId id) const {
  const Block& block = blocks_[id];
  return {block.mapped ? block.bytes : 0, block.address, id};
}

FreeBlocks::Entry CachingAllocator::entry_of_freed(BlockId id) {
  blocks_[id].freed_at = searches_;
  return entry_of(id);
}

void CachingAllocator::insert(BlockId id) { list_of(blocks_[id]).insert(entry_of_freed(id)); }

void CachingAllocator::erase(BlockId id) { list_of(blocks_[id]).erase(entry_of(id)); }

BlockId CachingAllocator::malloc(std::uint64_t requested_bytes, ClassId block_class) {
  const Request request = request_of(requested_bytes, block_class);
  (void)class_of(block_class);
  const bool collects = collects_garbage();
  const bool is_counted = collects && !request.small;
  if (is_counted) ++searches_;
  BlockId block = take_from_cache(request);
  if (block == kTied) {
    if (is_counted) --searches_;
    return kTied;
  }
  if (block == 0) {
    if (collects) collect_garbage();
    block = ask_driver(request);
    if (block == 0 && release_oversize(request)) block = ask_driver(request);
    // The blocks that empty_cache() leaves are not searched: PyTorch, too, asks only the driver
    // again (pytorch issue 189504).
    if (block == 0) {
      empty_cache();
      ++counts_.retries;
      block = ask_driver(request);
    }
    if (block == 0) return 0;
  }
  mark_in_use(block);
  return block;
}

// Returns the free block for the request, cut to its size; 0 if none fits. After
// stop_at_first_tie(), returns kTied once, for the first request that several blocks fit equally.
BlockId CachingAllocator::take_from_cache(const Request& request) {
  FreeBlocks& free = classes_[request.block_class].pool(request.small).free;
  const FreeBlocks::Place at = best_fit(free, request);
  if (at == free.end()) return 0;
  if (!counts_.has_ties && is_tied(free, at)) {
    counts_.has_ties = true;
    if (stops_at_tie_) return kTied;
  }
  const BlockId block = free[at].block;
  if (should_split(blocks_[block], request.bytes)) {
    free.replace_at(at, entry_of_freed(split(block, request.bytes)));
  } else {
    free.erase_at(at);
  }
  return block;
}

// The smallest block that is large enough; none if the block is too large for the request under
// max_split_bytes and max_non_split_rounding_bytes.
FreeBlocks::Place CachingAllocator::best_fit(const FreeBlocks& free, const Request& request) const {
  const FreeBlocks::Place none = free.end();
  FreeBlocks::Place at = free.first_of_at_least(request.bytes);
  if (at == none) return none;
  if (blocks_[free[at].block].expandable) at = least_expanded_fit(free, at);
  const std::uint64_t bytes = free[at].bytes;
  const std::uint64_t most = settings_.max_split_bytes;
  if (request.bytes < most && bytes >= most) return none;
  if (request.bytes >= most && bytes >= request.bytes + settings_.max_non_split_rounding_bytes) {
    return none;
  }
  return at;
}

// Goes on from the block `at` to the next larger one, as long as the larger one has fewer bytes
// together with the unmapped memory behind it.
FreeBlocks::Place CachingAllocator::least_expanded_fit(const FreeBlocks& free,
                                                       FreeBlocks::Place at) const {
  for (FreeBlocks::Place next = free.after(at); next != free.end(); next = free.after(at)) {
    if (size_when_expanded(free[next].block) >= size_when_expanded(free[at].block)) break;
    at = next;
  }
  return at;
}

std::uint64_t CachingAllocator::size_when_expanded(BlockId id) const {
  const Block& block = blocks_[id];
  const bool grows = block.next != 0 && !blocks_[block.next].mapped;
  return block.bytes + (grows ? blocks_[block.next].bytes : 0);
}

bool CachingAllocator::is_tied(const FreeBlocks& free, FreeBlocks::Place at) const {
  const Block& chosen = blocks_[free[at].block];
  if (chosen.expandable) return false;
  for (FreeBlocks::Place i = free.after(at); i != free.end() && free[i].bytes == chosen.bytes;
       i = free.after(i)) {
    const Block& other = blocks_[free[i].block];
    if (other.segment == chosen.segment) continue;
    // Any whole free segment serves equally well, but garbage collection frees the older one first.
    if (!collects_garbage() && other.is_whole_segment() && chosen.is_whole_segment()) continue;
    return true;
  }
  return false;
}

BlockId CachingAllocator::ask_driver(const Request& request) {
  const std::uint64_t segment_bytes = settings_.segment_bytes(request.bytes);
  const std::uint64_t asked = counts_.reserved_bytes + segment_bytes;
  if (asked > allowed_bytes_) return 0;
  const BlockId block =
      settings_.expandable ? take_expandable(request) : new_segment(request, segment_bytes);
  if (block == 0) return 0;
  counts_.asked_peak_bytes = std::max(counts_.asked_peak_bytes, asked);
  if (should_split(blocks_[block], request.bytes)) {
    insert(split(block, request.bytes));
  }
  return block;
}

BlockId CachingAllocator::new_segment(const Request& request, std::uint64_t bytes) {
  const std::optional<std::uint64_t> address = source_->allocate(bytes, request.block_class);
  if (!address) return 0;
  ++counts_.segment_calls;
  counts_.segments_peak = std::max(counts_.segments_peak, ++counts_.segments);
  grow_reserved(bytes);
  return new_block(request, *address, bytes);
}

bool CachingAllocator::should_split(const Block& block, std::uint64_t bytes) const {
  const std::uint64_t rest = block.bytes - bytes;
  if (block.small || settings_.expandable) return rest >= kUnitBytes;
  return bytes < settings_.max_split_bytes && rest > kLargestSmallBytes;
}

// Cuts a block after `bytes`. The rest becomes a block of its own that is in no list.
BlockId CachingAllocator::split(BlockId id, std::uint64_t bytes) {
  const BlockId behind = new_id();
  Block& block = blocks_[id];
  Block& rest = blocks_[behind];
  rest = block;
  rest.address += bytes;
  rest.bytes -= bytes;
  rest.previous = id;
  if (rest.next != 0) blocks_[rest.next].previous = behind;
  block.next = behind;
  block.bytes = bytes;
  return behind;
}

void CachingAllocator::mark_in_use(BlockId id) {
  Block& block = blocks_[id];
  block.in_use = true;
  counts_.allocated_bytes += block.bytes;
  counts_.allocated_peak_bytes = std::max(counts_.allocated_peak_bytes, counts_.allocated_bytes);
}

void CachingAllocator::free(BlockId id) {
  counts_.allocated_bytes -= blocks_[id].bytes;
  make_available(id);
}

void CachingAllocator::free_later(BlockId id, std::uint32_t ticket) {
  counts_.allocated_bytes -= blocks_[id].bytes;
  waiting_[ticket] = id;
}

void CachingAllocator::finish_free(std::uint32_t ticket) {
  const auto found = waiting_.find(ticket);
  if (found == waiting_.end()) return;
  make_available(found->second);
  waiting_.erase(found);
}

// Joins a block that is no longer in use with its free neighbours, and puts it in the list.
void CachingAllocator::make_available(BlockId id) {
  Block& block = blocks_[id];
  block.in_use = false;
  const BlockId joined = can_join(id, block.previous) ? block.previous
                         : can_join(id, block.next)   ? block.next
                                                      : 0;
  if (joined == 0) return insert(id);
  // Replaces the neighbour's entry in the list by that of the block that both become.
  const FreeBlocks::Entry old = entry_of(joined);
  absorb(id, joined);
  join(id, blocks_[id].next);
  list_of(blocks_[id]).replace(old, entry_of_freed(id));
}

bool CachingAllocator::can_join(BlockId id, BlockId neighbour) const {
  return is_available(neighbour) && blocks_[neighbour].mapped == blocks_[id].mapped;
}

// Joins the neighbour to the block, if it can be joined. The block is in no list.
void CachingAllocator::join(BlockId id, BlockId neighbour) {
  if (!can_join(id, neighbour)) return;
  erase(neighbour);
  absorb(id, neighbour);
}

// Joins two blocks that are in no list any more.
void CachingAllocator::absorb(BlockId id, BlockId neighbour) {
  Block& block = blocks_[id];
  const Block& other = blocks_[neighbour];
  if (block.previous == neighbour) {
    block.address = other.address;
    block.previous = other.previous;
    if (block.previous != 0) blocks_[block.previous].next = id;
  } else {
    block.next = other.next;
    if (block.next != 0) blocks_[block.next].previous = id;
  }
  block.bytes += other.bytes;
  delete_block(neighbour);
}

void CachingAllocator::grow_reserved(std::uint64_t bytes) {
  counts_.reserved_bytes += bytes;
  counts_.reserved_peak_bytes = std::max(counts_.reserved_peak_bytes, counts_.reserved_bytes);
}

// Returns whole free segments of large blocks to the driver until the threshold is kept: in each
// round those that have been free for at least the average time.
void CachingAllocator::collect_garbage() {
  const std::uint64_t threshold = garbage_threshold_bytes();
  if (counts_.reserved_bytes <= threshold) return;
  const std::uint64_t target = counts_.reserved_bytes - threshold;
  struct Candidate {
    BlockId block;
    std::uint64_t age;
  };
  std::vector<Candidate> left;
  double total_age = 0;
  for (const Class& owner : classes_) {
    if (owner.keeps_cache) continue;
    for (const FreeBlocks::Entry& entry : owner.large.free.entries()) {
      const Block& block = blocks_[entry.block];
      if (!block.is_whole_segment() || block.expandable) continue;
      left.push_back({entry.block, searches_ - block.freed_at});
      total_age += static_cast<double>(left.back().age);
    }
  }
  std::uint64_t reclaimed = 0;
  while (reclaimed < target && !left.empty()) {
    const double least_age = total_age / static_cast<double>(left.size());
    const auto is_younger = [&](const Candidate& candidate) {
      return static_cast<double>(candidate.age) < least_age;
    };
    const auto old = std::ranges::stable_partition(left, is_younger);
    if (old.empty()) return;
    for (const Candidate& candidate : old) {
      total_age -= static_cast<double>(candidate.age);
      reclaimed += blocks_[candidate.block].bytes;
      release_free_segment(candidate.block);
    }
    left.erase(old.begin(), old.end());
  }
}

// Returns to the driver one free block that is as large as the request and max_split_bytes, or else
// the largest blocks of at least max_split_bytes. False if that is not enough.
bool CachingAllocator::release_oversize(const Request& request) {
  if (settings_.max_split_bytes == AllocatorSettings::kNoLimit) return false;
  const FreeBlocks& free = classes_[request.block_class].pool(request.small).free;
  const std::uint64_t wanted = std::max(request.bytes, settings_.max_split_bytes);
  const auto can_go = [&](const FreeBlocks::Entry& entry) {
    return !blocks_[entry.block].expandable;
  };
  if (const FreeBlocks::Place first = free.first_of_at_least(wanted); first != free.end()) {
    if (!can_go(free[first])) return false;
    release_free_segment(free[first].block);
    return true;
  }
  std::uint64_t released = 0;
  const std::vector<FreeBlocks::Entry> entries = free.entries();
  for (auto entry = entries.rbegin(); entry != entries.rend() && released < wanted; ++entry) {
    if (entry->bytes < settings_.max_split_bytes) break;
    if (!can_go(*entry)) continue;
    released += entry->bytes;
    release_free_segment(entry->block);
  }
  return released >= wanted;
}

void CachingAllocator::empty_cache() {
  for (const auto& [ticket, block] : waiting_) make_available(block);
  waiting_.clear();
  release_cache_of(false);
  release_cache_of(true);
}

void CachingAllocator::release_cache_of(bool small) {
  std::vector<BlockId> expandable;
  for (Class& owner : classes_) {
    if (owner.keeps_cache) continue;
    const std::vector<FreeBlocks::Entry> entries = owner.pool(small).free.entries();
    for (const FreeBlocks::Entry& entry : entries) {
      const Block& block = blocks_[entry.block];
      if (block.expandable) {
        expandable.push_back(entry.block);
      } else if (block.is_whole_segment()) {
        release_free_segment(entry.block);
      }
    }
  }
  for (const BlockId block : expandable) unmap(block);
}

BlockId CachingAllocator::take_expandable(const Request& request) {
  BlockId block = find_room(request);
  if (block == 0) return 0;
  if (!blocks_[block].mapped && !map(block, std::min(blocks_[block].bytes, request.bytes))) {
    return 0;
  }
  // Maps one following block after another until there is enough memory: map() joins the block that
  // it maps with the free block in front of it.
  while (blocks_[block].bytes < request.bytes) {
    const std::uint64_t missing = request.bytes - blocks_[block].bytes;
    const BlockId behind = blocks_[block].next;
    if (!map(behind, std::min(missing, blocks_[behind].bytes))) return 0;
    block = behind;
  }
  erase(block);
  return block;
}

// The first of several neighbouring free and unmapped blocks that together have room for the
// request.
BlockId CachingAllocator::find_room(const Request& request) {
  const auto has_room = [&](BlockId block) {
    std::uint64_t bytes = 0;
    for (; bytes < request.bytes && is_available(block); block = blocks_[block].next) {
      bytes += blocks_[block].bytes;
    }
    return bytes >= request.bytes;
  };
  Pool& pool = classes_[request.block_class].pool(request.small);
  for (const FreeBlocks::Entry& entry : pool.unmapped.entries()) {
    const BlockId before = blocks_[entry.block].previous;
    const BlockId first = is_available(before) ? before : entry.block;
    if (has_room(first)) return first;
  }
  const SegmentSource::Space space =
      source_->reserve(settings_.page_bytes(request.small), request.block_class);
  if (space.bytes < request.bytes) return 0;
  const BlockId id = new_block(request, space.address, space.bytes);
  blocks_[id].mapped = false;
  blocks_[id].expandable = true;
  insert(id);
  return id;
}

// Maps the first pages of an unmapped block, as many as `bytes` need, and joins them with free
// mapped neighbours. False if the driver has no memory.
bool CachingAllocator::map(BlockId id, std::uint64_t bytes) {
  const std::uint64_t page = settings_.page_bytes(blocks_[id].small);
  const std::uint64_t mapped = std::min((bytes + page - 1) / page * page, blocks_[id].bytes);
  if (!source_->map(blocks_[id].address, mapped)) return false;
  ++counts_.segment_calls;
  erase(id);
  if (mapped < blocks_[id].bytes) insert(split(id, mapped));
  blocks_[id].mapped = true;
  join(id, blocks_[id].previous);
  join(id, blocks_[id].next);
  insert(id);
  grow_reserved(mapped);
  return true;
}

// Unmaps only whole pages of a block; the bytes before and behind them stay.
void CachingAllocator::unmap(BlockId id) {
  const std::uint64_t page = settings_.page_bytes(blocks_[id].small);
  const Block& whole = blocks_[id];
  // Pages are counted from the segment's start.
  const std::uint64_t offset = whole.address - whole.segment;
  const std::uint64_t begin = whole.segment + (offset + page - 1) / page * page;
  const std::uint64_t end = whole.segment + (offset + whole.bytes) / page * page;
  if (begin >= end) return;
  erase(id);
  if (begin > blocks_[id].address) {
    const BlockId behind = split(id, begin - blocks_[id].address);
    insert(id);
    id = behind;
  }
  if (blocks_[id].bytes > end - begin) insert(split(id, end - begin));
  blocks_[id].mapped = false;
  source_->unmap(begin, end - begin);
  ++counts_.segment_calls;
  counts_.reserved_bytes -= end - begin;
  join(id, blocks_[id].previous);
  join(id, blocks_[id].next);
  if (blocks_[id].is_whole_segment()) {
    delete_block(id);  // the driver gets the address space back with the last page
  } else {
    insert(id);
  }
}

BlockId CachingAllocator::adopt_segment(std::uint64_t address, std::uint64_t bytes,
                                        ClassId block_class, bool small) {
  (void)class_of(block_class);
  counts_.segments_peak = std::max(counts_.segments_peak, ++counts_.segments);
  grow_reserved(bytes);
  const BlockId id = new_block({bytes, block_class, small}, address, bytes);
  insert(id);
  return id;
}

BlockId CachingAllocator::adopt_space(std::uint64_t address, std::uint64_t bytes,
                                      ClassId block_class, bool small) {
  (void)class_of(block_class);
  const BlockId id = new_block({bytes, block_class, small}, address, bytes);
  blocks_[id].mapped = false;
  blocks_[id].expandable = true;
  insert(id);
  return id;
}

CachingAllocator::Parts CachingAllocator::carve(BlockId id, std::uint64_t address,
                                                std::uint64_t bytes) {
  const Block& whole = blocks_[id];
  const std::uint64_t offset = address - whole.address;
  const bool is_inside = bytes != 0 && address >= whole.address && offset < whole.bytes &&
                         bytes <= whole.bytes - offset;
  if (!is_inside) return {};
  erase(id);
  Parts parts{0, id, 0};
  if (offset != 0) {
    parts = {id, split(id, offset), 0};
    insert(parts.before);
  }
  if (blocks_[parts.piece].bytes > bytes) {
    parts.behind = split(parts.piece, bytes);
    insert(parts.behind);
  }
  return parts;
}

CachingAllocator::Parts CachingAllocator::adopt_pages(BlockId unmapped, std::uint64_t address,
                                                      std::uint64_t bytes) {
  const Parts parts = carve(unmapped, address, bytes);
  if (parts.piece == 0) return parts;
  blocks_[parts.piece].mapped = true;
  join(parts.piece, blocks_[parts.piece].previous);
  insert(parts.piece);
  grow_reserved(bytes);
  return parts;
}

CachingAllocator::Parts CachingAllocator::adopt_block(BlockId free, std::uint64_t address,
                                                      std::uint64_t bytes) {
  const Parts parts = carve(free, address, bytes);
  if (parts.piece != 0) mark_in_use(parts.piece);
  return parts;
}

void CachingAllocator::move_segments(const std::map<std::uint64_t, std::uint64_t>& moves) {
  for (Block& block : blocks_) {
    const auto move = moves.find(block.segment);
    if (move == moves.end()) continue;  // an entry of blocks_ whose block is gone
    block.address += move->second - move->first;
    block.segment = move->second;
  }
  for (Class& owner : classes_) {
    for (FreeBlocks* free : {&owner.small.free, &owner.large.free}) {
      const std::vector<FreeBlocks::Entry> entries = free->entries();
      *free = {};
      for (const FreeBlocks::Entry& entry : entries) {
        free->insert({entry.bytes, blocks_[entry.block].address, entry.block});
      }
    }
  }
}

BlockId CachingAllocator::find_fit(std::uint64_t requested_bytes, ClassId block_class) const {
  if (block_class >= classes_.size()) return 0;
  const Request request = request_of(requested_bytes, block_class);
  const FreeBlocks& free = classes_[block_class].pool(request.small).free;
  const FreeBlocks::Place at = best_fit(free, request);
  return at == free.end() ? 0 : free[at].block;
}

std::uint64_t CachingAllocator::block_bytes_for(std::uint64_t requested_bytes,
                                                ClassId block_class) const {
  const Request request = request_of(requested_bytes, block_class);
  const BlockId fit = find_fit(requested_bytes, block_class);
  Block whole;
  whole.small = request.small;
  whole.bytes = fit != 0 ? blocks_[fit].bytes : settings_.segment_bytes(request.bytes);
  return should_split(whole, request.bytes) ? request.bytes : whole.bytes;
}

bool CachingAllocator::gives_back_for(std::uint64_t requested_bytes, ClassId block_class) const {
  if (find_fit(requested_bytes, block_class) != 0) return false;
  const std::uint64_t rounded = settings_.round_request(requested_bytes);
  const std::uint64_t reserved = counts_.reserved_bytes;
  return reserved + settings_.segment_bytes(rounded) > allowed_bytes_ ||
         (collects_garbage() && reserved > garbage_threshold_bytes());
}

std::uint64_t CachingAllocator::free_size_below(std::uint64_t bytes, ClassId block_class) const {
  if (block_class >= classes_.size()) return 0;
  const FreeBlocks& free = classes_[block_class].pool(bytes <= kLargestSmallBytes).free;
  const FreeBlocks::Entry* const below = free.last_below(bytes);
  return below == nullptr ? 0 : below->bytes;
}

std::vector<CachingAllocator::FreeSegment> CachingAllocator::free_segments() const {
  std::vector<FreeSegment> segments;
  for (const bool small : {false, true}) {
    for (ClassId block_class = 0; block_class < classes_.size(); ++block_class) {
      for (const FreeBlocks::Entry& entry : classes_[block_class].pool(small).free.entries()) {
        const Block& block = blocks_[entry.block];
        if (block.expandable || !block.is_whole_segment()) continue;
        segments.push_back(
            {entry.address, entry.block, block_class, classes_[block_class].keeps_cache});
      }
    }
  }
  return segments;
}

void CachingAllocator::release_free_segment(BlockId id) {
  erase(id);
  const Block& block = blocks_[id];
  source_->release(block.address, block.bytes);
  ++counts_.segment_calls;
  --counts_.segments;
  counts_.reserved_bytes -= block.bytes;
  delete_block(id);
}

BlockId CachingAllocator::free_block_at(std::uint64_t address, std::uint64_t least_bytes) const {
  for (const Class& owner : classes_) {
    for (const bool small : {true, false}) {
      const FreeBlocks& free = owner.pool(small).free;
      for (FreeBlocks::Place i = free.first_of_at_least(least_bytes); i != free.end();
           i = free.after(i)) {
        if (free[i].address == address) return free[i].block;
      }
    }
  }
  return 0;
}

void CachingAllocator::move_segment(BlockId any_block, ClassId to) {
  (void)class_of(to);
  BlockId first = any_block;
  while (blocks_[first].previous != 0) first = blocks_[first].previous;
  for (BlockId id = first; id != 0; id = blocks_[id].next) {
    const bool is_in_list = !blocks_[id].in_use;
    if (is_in_list) erase(id);
    blocks_[id].block_class = to;
    if (is_in_list) insert(id);
  }
}

}  // namespace gpumemtrace::analyzer::replay
