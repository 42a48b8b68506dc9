// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/fold_places.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kPageBytes = 2 << 20;

std::uint64_t end_of(std::uint64_t address, std::uint64_t bytes) noexcept {
  const std::uint64_t room = ~std::uint64_t{0} - address;
  return address + (bytes < room ? bytes : room);
}

}  // namespace

std::size_t Places::first_ending_after(std::uint64_t address) const noexcept {
  std::size_t first = 0;
  std::size_t count = ranges_.size();
  while (count > 0) {
    const std::size_t half = count / 2;
    if (ranges_[first + half].end <= address) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

PlaceOf Places::find(std::uint64_t address) noexcept {
  if (!contains(last_, address)) {
    const std::size_t i = first_ending_after(address);
    if (!contains(i, address)) return {};
    last_ = i;
  }
  return ranges_[last_].place;
}

bool Places::is_free_for(std::uint64_t begin, std::uint64_t end, PlaceOf place) const noexcept {
  for (std::size_t i = first_ending_after(begin); i < ranges_.size() && ranges_[i].begin < end;
       ++i) {
    if (!(ranges_[i].place == place)) return false;
  }
  return true;
}

bool Places::set(std::uint64_t address, std::uint64_t bytes, PlaceOf place) noexcept {
  std::uint64_t begin = address;
  std::uint64_t end = end_of(address, bytes);
  if (end == begin) return true;
  const std::size_t i = contains(last_, begin) ? last_ : first_ending_after(begin);
  if (contains(i, begin) && end <= ranges_[i].end && ranges_[i].place == place) {
    last_ = i;
    return true;
  }
  const std::uint64_t wide_begin = begin & ~(kPageBytes - 1);
  const std::uint64_t wide_end = end_of(end - 1, kPageBytes) & ~(kPageBytes - 1);
  if (place.place != trace::Place::kPinned && wide_end > end &&
      is_free_for(wide_begin, wide_end, place)) {
    begin = wide_begin;
    end = wide_end;
  }
  return insert({begin, end, place});
}

bool Places::insert(const Range& range) noexcept {
  if (!forget(range.begin, range.end - range.begin)) return false;
  const std::size_t i = first_ending_after(range.begin);
  const bool joins_previous =
      i > 0 && ranges_[i - 1].end == range.begin && ranges_[i - 1].place == range.place;
  const bool joins_next =
      i < ranges_.size() && ranges_[i].begin == range.end && ranges_[i].place == range.place;
  if (joins_previous) ranges_[i - 1].end = joins_next ? ranges_[i].end : range.end;
  if (joins_previous && joins_next) ranges_.erase(i, i + 1);
  if (!joins_previous && joins_next) ranges_[i].begin = range.begin;
  return joins_previous || joins_next || ranges_.insert(i, range);
}

bool Places::forget(std::uint64_t address, std::uint64_t bytes) noexcept {
  const std::uint64_t end = end_of(address, bytes);
  std::size_t i = first_ending_after(address);
  if (i < ranges_.size() && ranges_[i].begin < address) {
    const Range right{end, ranges_[i].end, ranges_[i].place};
    ranges_[i].end = address;
    ++i;
    if (right.begin < right.end) return ranges_.insert(i, right);
  }
  const std::size_t first = i;
  while (i < ranges_.size() && ranges_[i].end <= end) ++i;
  if (i < ranges_.size() && ranges_[i].begin < end) ranges_[i].begin = end;
  ranges_.erase(first, i);
  return true;
}

}  // namespace gpumemtrace::preload
