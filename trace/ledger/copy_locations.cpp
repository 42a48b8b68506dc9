// SPDX-License-Identifier: Apache-2.0
#include "trace/ledger/copy_locations.hpp"

#include <algorithm>
#include <limits>

namespace gpumemtrace::ledger {
namespace {

// The end of a range, at most the highest address.
std::uint64_t end_of(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - address;
  return address + std::min(bytes, room);
}

}  // namespace

std::size_t CopyLocations::first_ending_after(std::uint64_t address) const {
  const auto found = std::partition_point(ranges_.begin(), ranges_.end(),
                                          [&](const Range& range) { return range.end <= address; });
  return static_cast<std::size_t>(found - ranges_.begin());
}

Location CopyLocations::find(std::uint64_t address) const {
  const auto contains = [&](std::size_t i) {
    return i < ranges_.size() && ranges_[i].begin <= address && address < ranges_[i].end;
  };
  std::uint32_t& hint = hint_of(address);
  if (!contains(hint)) {
    const std::size_t i = first_ending_after(address);
    if (!contains(i)) return {};
    hint = static_cast<std::uint32_t>(i);
  }
  return ranges_[hint].location;
}

bool CopyLocations::has_no_other_kind(std::uint64_t begin, std::uint64_t end,
                                      Location location) const {
  for (std::size_t i = first_ending_after(begin); i < ranges_.size() && ranges_[i].begin < end;
       ++i) {
    if (!(ranges_[i].location == location)) return false;
  }
  return true;
}

// Sets the location of a range that the hint did not find. Device and managed ranges are widened to
// whole pages, unless these hold memory at another location.
void CopyLocations::set_slowly(std::uint64_t address, std::uint64_t bytes, Location location) {
  std::uint64_t begin = address;
  std::uint64_t end = end_of(address, bytes);
  if (end == begin) return;
  const std::size_t i = first_ending_after(begin);
  if (i < ranges_.size() && ranges_[i].begin <= begin && end <= ranges_[i].end &&
      ranges_[i].location == location) {
    hint_of(address) = static_cast<std::uint32_t>(i);
    return;
  }
  const bool host = location.memory == MemoryClass::kPinned;
  const std::uint64_t wide_begin = begin & ~(kPageBytes - 1);
  const std::uint64_t wide_end = end_of(end - 1, kPageBytes) & ~(kPageBytes - 1);
  if (!host && wide_end > end && has_no_other_kind(wide_begin, wide_end, location)) {
    begin = wide_begin;
    end = wide_end;
  }
  insert({begin, end, location});
}

void CopyLocations::insert(const Range& range) {
  forget(range.begin, range.end - range.begin);
  const std::size_t i = first_ending_after(range.begin);
  const auto joins = [&](std::size_t other) { return ranges_[other].location == range.location; };
  const bool joins_previous = i > 0 && ranges_[i - 1].end == range.begin && joins(i - 1);
  const bool joins_next = i < ranges_.size() && ranges_[i].begin == range.end && joins(i);
  if (joins_previous && joins_next) {
    ranges_[i - 1].end = ranges_[i].end;
    ranges_.erase(i, i + 1);
  } else if (joins_previous) {
    ranges_[i - 1].end = range.end;
  } else if (joins_next) {
    ranges_[i].begin = range.begin;
  } else {
    add(i, range);
  }
}

// Removes a range from the map; ranges that reach beyond it keep the parts outside.
void CopyLocations::forget(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = end_of(address, bytes);
  std::size_t i = first_ending_after(address);
  if (i < ranges_.size() && ranges_[i].begin < address) {
    const Range right{end, ranges_[i].end, ranges_[i].location};
    ranges_[i].end = address;
    ++i;
    if (right.begin < right.end) return add(i, right);
  }
  const std::size_t first = i;
  while (i < ranges_.size() && ranges_[i].end <= end) ++i;
  if (i < ranges_.size() && ranges_[i].begin < end) ranges_[i].begin = end;
  ranges_.erase(first, i);
}

Location locate(const CopyLocations& map, std::uint64_t address, trace::EndType said,
                std::int32_t context_device, bool blind) {
  if (said == trace::EndType::kArray) return {MemoryClass::kArray, context_device};
  const Location found = map.find(address);
  if (found.memory != MemoryClass::kUnknown) return found;
  switch (said) {
    case trace::EndType::kHost: {
      return {blind ? MemoryClass::kUnknown : MemoryClass::kPageable, kHostDevice};
    }
    case trace::EndType::kDevice: {
      // The address is that of a module's global, or of memory whose allocation is not in the
      // trace.
      return {MemoryClass::kDevice, context_device};
    }
    case trace::EndType::kUnified:
    case trace::EndType::kUnknown:
    case trace::EndType::kArray: {
      break;
    }
  }
  if (blind) return {MemoryClass::kUnknown, kUnknownDevice};
  return {MemoryClass::kPageable, kHostDevice};
}

}  // namespace gpumemtrace::ledger
