// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/framework.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

// log2 of a page's bytes: segments of PyTorch are multiples of 2 MiB, so a page rarely belongs to
// two segments.
constexpr int kPageShift = 21;

// 4 TiB, more memory than any device has.
constexpr std::uint64_t kMaxIndexedBytes = std::uint64_t{1} << 42;

}  // namespace

void Framework::find_device(std::int32_t ordinal) {
  const auto [found, added] = devices_.try_emplace(ordinal);
  last_device_ = &found->second;
  if (!added) return;
  FrameworkDevice& device = found->second;
  device.device = ordinal;
  device.blocks = &accounts_.account_of(Level::kFramework, ordinal);
  device.blocks->other_snapshots.push_back(&device.most_stranded_moment);
  for (const Level level : {Level::kDriver, Level::kMapping}) {
    Account& account = accounts_.account_of(level, ordinal);
    account.other_snapshots.push_back(&device.blocks->peak);
    account.other_snapshots.push_back(&device.most_stranded_moment);
  }
}

const FrameworkDevice* Framework::find(std::int32_t ordinal) const {
  const auto found = devices_.find(ordinal);
  return found == devices_.end() ? nullptr : &found->second;
}

// Returns the id of the segment around the address, 0 if none. The page index gives nearly all
// answers; find_by_begin() is for pages with several segments and pieces that have no pages.
std::uint32_t Framework::find_segment(std::uint64_t address) const {
  const Page* page = pages_.find(address >> kPageShift);
  if (page == nullptr) return unindexed_pieces_ == 0 ? 0 : find_by_begin(address);
  const Segment& segment = segments_[page->segment - 1];
  if (segment.live && segment.begin <= address && address < segment.end) return page->segment;
  return find_by_begin(address);
}

std::uint32_t Framework::find_by_begin(std::uint64_t address) const {
  auto position = by_begin_.upper_bound(address);
  if (position == by_begin_.begin()) return 0;
  --position;
  return address < segments_[position->second - 1].end ? position->second : 0;
}

std::uint32_t Framework::add_segment(const Segment& segment, std::uint64_t now) {
  std::uint32_t id;
  if (unused_.empty() || segment.pool != 0) {
    segments_.emplace_back();
    id = static_cast<std::uint32_t>(segments_.size());
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  Segment& added = segments_[id - 1];
  added = segment;
  added.bytes = 0;
  added.live = true;
  by_begin_[segment.begin] = id;
  ++device(segment.device).segments_allocated;
  if (!segment.mapped) grow_segment(id, segment.begin, segment.bytes, segment.born, now);
  return id;
}

void Framework::grow_segment(std::uint32_t id, std::uint64_t address, std::uint64_t bytes,
                             std::uint64_t born, std::uint64_t now) {
  Segment& segment = segments_[id - 1];
  FrameworkDevice& owner = device(segment.device);
  const std::uint64_t before = segment.stranded();
  segment.bytes += bytes;
  owner.grow(bytes, born);
  if (segment.pool != 0) {
    pools_.grow(segment.pool, bytes, 0);
    owner.in_private_pools.reserved += bytes;
  }
  accounts_.set_reserved(*owner.blocks, owner.reserved_bytes());
  change_stranded(owner, before, segment.stranded(), now);
  index_pages(id, address, bytes);
}

void Framework::shrink_segment(std::uint32_t id, std::uint64_t address, std::uint64_t bytes,
                               std::uint64_t now) {
  Segment& segment = segments_[id - 1];
  FrameworkDevice& owner = device(segment.device);
  const std::uint64_t before = segment.stranded();
  const std::uint64_t gone = std::min(segment.bytes, bytes);
  segment.bytes -= gone;
  owner.shrink(gone);
  if (segment.pool != 0) {
    pools_.shrink(segment.pool, gone, 0);
    owner.in_private_pools.reserved -= gone;
  }
  accounts_.set_reserved(*owner.blocks, owner.reserved_bytes());
  unindex_pages(id, address, bytes);
  change_stranded(owner, before, segment.stranded(), now);
}

void Framework::remove_segment(std::uint32_t id, std::uint64_t now) {
  Segment& segment = segments_[id - 1];
  if (segment.bytes != 0) shrink_segment(id, segment.begin, segment.bytes, now);
  by_begin_.erase(segment.begin);
  segment.live = false;
  ++device(segment.device).segments_freed;
  // The id is used again only if no blocks are live in the trace, because they would then point at
  // the next segment with this id.
  if (segment.live_blocks == 0 && segment.pool == 0) unused_.push_back(id);
}

void Framework::join_pool(std::uint32_t id, PrivatePools::Capture& capture, std::uint64_t now) {
  Segment& segment = segments_[id - 1];
  if (segment.pool != 0) {
    segment.pool = pools_.join(capture, segment.device, segment.pool);
    return;
  }
  // The segment is older than the first capture: a warm-up in the pool made it.
  FrameworkDevice& owner = device(segment.device);
  const std::uint64_t before = segment.stranded();
  segment.pool = pools_.pool_of(capture, segment.device);
  pools_.grow(segment.pool, segment.bytes, segment.allocated);
  owner.in_private_pools.reserved += segment.bytes;
  owner.in_private_pools.allocated += segment.allocated;
  change_stranded(owner, before, segment.stranded(), now);
}

// Updates the peaks of reserved and allocated bytes. Called at block records only, so that a new
// segment counts together with the block for which it was made.
void Framework::update_peaks(FrameworkDevice& device) {
  const PoolBytes& in_private = device.in_private_pools;
  const std::uint64_t reserved = device.reserved_bytes();
  const std::uint64_t allocated = device.blocks->bytes;
  PoolBytes& peak = device.default_pool_peak;
  peak.reserved = std::max(peak.reserved, reserved - std::min(reserved, in_private.reserved));
  peak.allocated = std::max(peak.allocated, allocated - std::min(allocated, in_private.allocated));
  if (device.reserved_peak_bytes <= device.marked_peak) return;
  device.marked_peak = device.reserved_peak_bytes;
  device.allocated_at_peak = allocated;
  device.peak_is_restored = false;
  pools_.set_mark();
}

void Framework::index_pages(std::uint32_t id, std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0) return;
  if (bytes > kMaxIndexedBytes) {
    ++unindexed_pieces_;
    return;
  }
  for (std::uint64_t page = address >> kPageShift; page <= (address + bytes - 1) >> kPageShift;
       ++page) {
    Page* known = page == 0 ? nullptr : pages_.find(page);
    if (known != nullptr) {
      if (known->segment != id) ++known->overlaps;
    } else if (page != 0) {
      *pages_.add(page) = {page, id, 0};
    }
  }
}

void Framework::unindex_pages(std::uint32_t id, std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0 || bytes > kMaxIndexedBytes) return;
  for (std::uint64_t page = address >> kPageShift; page <= (address + bytes - 1) >> kPageShift;
       ++page) {
    Page* known = pages_.find(page);
    if (known == nullptr) continue;
    if (known->overlaps != 0) {
      // The page may name the removed segment from now on; find_by_begin() still finds the others.
      --known->overlaps;
    } else if (known->segment == id) {
      Page erased;
      (void)pages_.erase(page, erased);
    }
  }
}

void Framework::change_stranded(FrameworkDevice& device, std::uint64_t before, std::uint64_t after,
                                std::uint64_t now) {
  device.stranded_bytes += after - before;
  if (device.stranded_bytes > device.most_stranded_moment.bytes())
    device.most_stranded_moment.set(now, device.stranded_bytes);
}

void Framework::add_block(const trace::Block& record, std::uint32_t group, std::uint32_t segment,
                          std::uint64_t now) {
  const auto bytes = static_cast<std::uint64_t>(record.bytes);
  LiveAllocation& block = *blocks_.add(record.address);
  block.bytes = bytes;
  block.born = now;
  block.group = group;
  block.link = segment;
  accounts_.add(group, bytes, now);
  accounts_.log_request(record);
  if (segment == 0) return;
  Segment& around = segments_[segment - 1];
  const std::uint64_t before = around.stranded();
  ++around.live_blocks;
  around.allocated += bytes;
  if (around.pool != 0) {
    pools_.grow(around.pool, 0, bytes);
    device(around.device).in_private_pools.allocated += bytes;
  }
  change_stranded(device(around.device), before, around.stranded(), now);
}

bool Framework::remove_block(std::uint64_t address, std::uint64_t now) {
  LiveAllocation removed;
  if (!blocks_.erase(address, removed)) return false;
  accounts_.remove(removed, Accounts::End::kFreed);
  if (removed.link == 0) return true;
  Segment& around = segments_[removed.link - 1];
  const std::uint64_t before = around.stranded();
  --around.live_blocks;
  around.allocated -= removed.bytes;
  if (around.pool != 0) {
    pools_.shrink(around.pool, 0, removed.bytes);
    device(around.device).in_private_pools.allocated -= removed.bytes;
  }
  if (!around.live) {
    if (around.live_blocks == 0 && around.pool == 0) unused_.push_back(removed.link);
    return true;
  }
  change_stranded(device(around.device), before, around.stranded(), now);
  return true;
}

bool Framework::check_totals(const trace::Block& record, std::uint64_t now) {
  FrameworkDevice& owner = device(record.device);
  owner.report(record.reserved_bytes, now);
  accounts_.set_reserved(*owner.blocks, record.reserved_bytes);
  update_peaks(owner);
  const auto difference = static_cast<std::int64_t>(record.allocated - owner.blocks->bytes);
  const bool difference_changed = difference != owner.difference;
  owner.difference = difference;
  return difference_changed;
}

}  // namespace gpumemtrace::analyzer
