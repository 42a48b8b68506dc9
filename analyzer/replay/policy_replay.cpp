// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policy_replay.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer::replay {
namespace {

constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 46;
// The size of a reserved address space: more than 9/8 of any device.
constexpr std::uint64_t kReservationBytes = std::uint64_t{1} << 40;

// The most addresses that are tried to place one segment.
constexpr int kMostTries = 64;
// The number of refused requests for which the largest request that would be met is measured.
constexpr std::size_t kMostMeasured = 4;
// The precision to which the largest request that would be met is measured, in bytes.
constexpr std::uint64_t kMeasuredUnit = kLargeRoundingBytes;

// Spreads neighbouring numbers over all values (the finalizer of splitmix64).
std::uint64_t spread(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

// By::kSite gives all requests with one stack and one largest size the same size.
std::uint64_t SizeChoice::size_of(const Event& request, std::uint64_t number) const {
  if (request.knows_bytes() || by == By::kHigh) return request.high_bytes;
  if (by == By::kLow) return request.low_bytes;
  const std::uint64_t choices = (request.high_bytes - request.low_bytes) / kUnitBytes + 1;
  const std::uint64_t key =
      by == By::kRequest ? number : spread(number_of(request.stack)) ^ request.high_bytes;
  return request.low_bytes + spread(key ^ spread(sample)) % choices * kUnitBytes;
}

std::uint64_t AddressSpace::first_gap(std::uint64_t bytes) const {
  std::uint64_t at = kFirstAddress;
  for (const auto& [begin, length] : taken_) {
    if (begin - at >= bytes) break;
    at = begin + length;
  }
  return at;
}

// A place for a segment that is computed from the sample's number. Segments of a real card leave so
// much room that the first address tried is nearly always free; a trace may name larger ones.
std::uint64_t AddressSpace::any_gap(std::uint64_t bytes) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::uint64_t offset = spread(++takes_ ^ spread(*placing_.sample)) % kFirstAddress;
    const std::uint64_t at = kFirstAddress + offset / kSmallSegmentBytes * kSmallSegmentBytes;
    const auto after = taken_.lower_bound(at);
    if (after != taken_.end() && after->first - at < bytes) continue;
    if (after == taken_.begin()) return at;
    const auto& [begin, length] = *std::prev(after);
    if (at - begin >= length) return at;
  }
  return first_gap(bytes);
}

std::uint64_t AddressSpace::take(std::uint64_t bytes) {
  const std::uint64_t at = placing_.sample ? any_gap(bytes) : first_gap(bytes);
  taken_[at] = bytes;
  return at;
}

std::map<std::uint64_t, std::uint64_t> AddressSpace::place_again(Placing placing) {
  AddressSpace moved(placing);
  std::map<std::uint64_t, std::uint64_t> moves;
  for (const auto& [address, bytes] : taken_) moves[address] = moved.take(bytes);
  *this = std::move(moved);
  return moves;
}

std::unique_ptr<PolicyReplay> PolicyReplay::copy() const {
  std::unique_ptr<PolicyReplay> copy(new PolicyReplay(*this));
  copy->allocator_.set_source(*copy);
  return copy;
}

std::size_t PolicyReplay::apply(std::span<const Event> events) {
  std::size_t taken = 0;
  while (taken < events.size() && !ended_ && apply(events[taken])) ++taken;
  return ended_ ? events.size() : taken;
}

bool PolicyReplay::apply(const Event& event) {
  if (event.kind == EventKind::kRequest) return apply_request(event);
  if (event.kind == EventKind::kRefused) return apply_refused(event);
  if (event.kind == EventKind::kFree) {
    allocator_.free(blocks_[event.slot]);
  } else if (event.kind == EventKind::kFreeLater) {
    allocator_.free_later(blocks_[event.slot], event.slot);
  } else if (event.kind == EventKind::kWaitIsOver) {
    allocator_.finish_free(event.slot);
  } else if (event.kind == EventKind::kEmptyCache) {
    allocator_.empty_cache();
  } else if (event.kind == EventKind::kKeepCache) {
    allocator_.keep_cache_of(event.block_class);
  } else if (event.kind == EventKind::kAllowed) {
    allow(event.high_bytes);
  } else if (!keeps_capacity_) {
    capacity_ = event.high_bytes;  // kLimit
  }
  return true;
}

// Returns false, with nothing changed, if the block depends on the addresses of segments.
bool PolicyReplay::apply_request(const Event& event) {
  const BlockId block = allocator_.malloc(sizes_.size_of(event, requests_), event.block_class);
  if (block == CachingAllocator::kTied) return false;
  ++requests_;
  if (event.slot >= blocks_.size()) blocks_.resize(event.slot + 1);
  blocks_[event.slot] = block;
  if (block == 0) {
    ++refused_;
    ended_ = true;
  }
  return true;
}

// Repeats a request that the recorded run was refused. Returns false, with nothing changed, if its
// block depends on the addresses of segments.
bool PolicyReplay::apply_refused(const Event& event) {
  const bool keeps_outcome = refused_before_.size() < kMostRefusals;
  std::unique_ptr<PolicyReplay> before;  // a refusal empties the cache
  if (measures_refusals_ && refused_before_.size() < kMostMeasured) before = copy();
  const BlockId block = allocator_.malloc(event.high_bytes, event.block_class);
  if (block == CachingAllocator::kTied) return false;
  if (keeps_outcome) refused_before_.push_back({block != 0, 0});
  if (block != 0) {
    // The program's use of the block is not known: it is freed at once.
    allocator_.free(block);
    return true;
  }
  ++refused_;
  if (before) {
    refused_before_.back().largest_met_bytes =
        before->largest_met_below(event.high_bytes, event.block_class);
  }
  return true;
}

bool PolicyReplay::would_meet(std::uint64_t bytes, ClassId block_class) const {
  // A request also counts as met if the choice among several blocks is open (kTied).
  return copy()->allocator_.malloc(bytes, block_class) != 0;
}

// The largest request that would be met, by bisection. Larger requests are met less easily, but for
// rare exceptions; a request of the returned size is met in any case.
std::uint64_t PolicyReplay::largest_met_below(std::uint64_t bytes, ClassId block_class) const {
  std::uint64_t met = 0;  // in units of kMeasuredUnit
  std::uint64_t refused = (bytes + kMeasuredUnit - 1) / kMeasuredUnit;
  while (refused - met > 1) {
    const std::uint64_t middle = met + (refused - met) / 2;
    (would_meet(middle * kMeasuredUnit, block_class) ? met : refused) = middle;
  }
  return met * kMeasuredUnit;
}

void PolicyReplay::allow(std::uint64_t bytes) {
  if (!keeps_allowed_) allocator_.set_allowed_bytes(scaled_limit(bytes, allowed_scale_));
}

bool PolicyReplay::has_room(std::uint64_t bytes) const {
  return capacity_ == AllocatorSettings::kNoLimit ||
         (taken_ <= capacity_ && bytes <= capacity_ - taken_);
}

std::optional<std::uint64_t> PolicyReplay::allocate(std::uint64_t bytes, ClassId) {
  if (!has_room(bytes)) return std::nullopt;
  taken_ += bytes;
  return space_.take(bytes);
}

void PolicyReplay::release(std::uint64_t address, std::uint64_t bytes) {
  taken_ -= bytes;
  space_.give_back(address);
}

SegmentSource::Space PolicyReplay::reserve(std::uint64_t, ClassId) {
  return {space_.take(kReservationBytes), kReservationBytes};
}

bool PolicyReplay::map(std::uint64_t, std::uint64_t bytes) {
  if (!has_room(bytes)) return false;
  taken_ += bytes;
  return true;
}

void PolicyReplay::unmap(std::uint64_t, std::uint64_t bytes) { taken_ -= bytes; }

void UsedBytes::apply(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (event.kind == EventKind::kRequest) {
      if (event.slot >= blocks_.size()) blocks_.resize(event.slot + 1);
      const std::uint64_t bytes = (event.low_bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
      blocks_[event.slot] = bytes;
      used_ += bytes;
      peak_ = std::max(peak_, used_);
    } else if (event.kind == EventKind::kFree || event.kind == EventKind::kFreeLater) {
      // A block freed while other streams use it counts as free at once, not first at kWaitIsOver:
      // the pool may reuse it earlier.
      used_ -= blocks_[event.slot];
    }
  }
}

}  // namespace gpumemtrace::analyzer::replay
