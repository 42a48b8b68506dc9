// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/timeline.hpp"

#include <algorithm>
#include <iterator>

namespace gpumemtrace::analyzer {
namespace {

// The bucket with the higher maximum; if both are equal, the first.
const TimeBucket& higher(const TimeBucket& first, const TimeBucket& second) {
  return second.max_bytes > first.max_bytes ? second : first;
}

}  // namespace

TimeBucket join(const TimeBucket& first, const TimeBucket& second) {
  TimeBucket joined = higher(first, second);
  joined.min_bytes = std::min(first.min_bytes, second.min_bytes);
  joined.last_bytes = second.last_bytes;
  joined.reserved_bytes = std::max(first.reserved_bytes, second.reserved_bytes);
  joined.is_quiet = first.is_quiet && second.is_quiet;
  return joined;
}

void PartTimeline::add_page(std::size_t page) {
  if (page >= pages_.size()) pages_.resize(page + 1);
  pages_[page] = std::make_unique<Page>();
}

std::vector<std::uint64_t> PartTimeline::values(std::size_t buckets) const {
  std::vector<std::uint64_t> values(buckets);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < buckets; ++i) {
    const std::size_t page = i / kPageValues;
    if (page < pages_.size() && pages_[page] != nullptr) value += (*pages_[page])[i % kPageValues];
    values[i] = value;
  }
  return values;
}

void PartTimeline::replace(const std::vector<std::uint64_t>& values) {
  pages_.clear();
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != before) at(i) += values[i] - before;
    before = values[i];
  }
  if (before != 0) at(values.size()) -= before;
}

PartTimeline& Timeline::timeline_of(std::uint32_t part) {
  const auto next = static_cast<std::uint32_t>(parts_.size());
  const auto [slot, is_new] = slots_.try_emplace(part, next);
  if (is_new) parts_.emplace_back();
  return parts_[slot->second];
}

void Timeline::close_bucket(bool is_kept) {
  open_.last_bytes = level_;
  if (is_kept || !open_.is_quiet || changes_.empty()) {
    changes_.push_back({open_, closed_, reserved_bytes_});
  }
  ++closed_;
}

std::vector<Timeline::Closed>::const_iterator Timeline::last_change_until(std::size_t index) const {
  return std::prev(std::ranges::upper_bound(changes_, index, {}, &Closed::index));
}

// Returns the closed bucket with the index. If `changes_` has no entry for it, its bytes were those
// at the end of the last bucket with an entry.
TimeBucket Timeline::closed_bucket(const TimeGrid& grid, std::size_t index) const {
  if (index < first_) return {};
  const Closed& change = *last_change_until(index);
  if (change.index == index) return change.bucket;
  const std::uint64_t bytes = change.bucket.last_bytes;
  return {bytes, bytes, grid.start_of(index) - 1, bytes, change.reserved_bytes, true};
}

// Adds the pending bytes of the part to their bucket, unless a higher maximum has made them void.
void Timeline::add_pending_bytes(const TimeGrid& grid, PartTimeline& timeline) const {
  const PartTimeline::Pending pending = timeline.pending;
  timeline.pending = {};
  if (pending.bytes == 0) return;
  const TimeBucket bucket = pending.bucket < closed_ ? closed_bucket(grid, pending.bucket) : open_;
  if (bucket.max_time == pending.max_time) {
    timeline.add(pending.bucket, pending.bucket + 1, pending.bytes);
  }
}

// Called if the memory was live at the maximum of the open bucket. The memory was then live at the
// maxima of all closed buckets since its birth, except perhaps the bucket of its birth.
void Timeline::count_life(const TimeGrid& grid, std::uint32_t part, std::uint64_t born,
                          std::uint64_t bytes) {
  PartTimeline& timeline = timeline_of(part);
  if (timeline.pending.bucket != closed_ || timeline.pending.max_time != open_.max_time) {
    add_pending_bytes(grid, timeline);
    timeline.pending = {0, open_.max_time, closed_};
  }
  timeline.pending.bytes += bytes;
  std::size_t first = std::max(grid.index_of(born), first_);
  if (first >= closed_) return;
  if (closed_bucket(grid, first).max_time < born) ++first;
  timeline.add(first, closed_, bytes);
}

void Timeline::catch_up(const TimeGrid& grid) {
  close_bucket(false);
  closed_ = grid.present();
  open_ = begin_bucket(grid.start_of(closed_));
}

// Joins the closed buckets 2 * pair and 2 * pair + 1. Sets `source` to the index of the one with
// the higher maximum.
Timeline::Closed Timeline::join_pair(const TimeGrid& grid, std::size_t pair,
                                     std::size_t& source) const {
  // A bucket before first_ has no data, and the last closed bucket may have no partner after it.
  const std::size_t first = std::max(2 * pair, first_);
  const std::size_t second = std::min(2 * pair + 1, closed_ - 1);
  const TimeBucket first_bucket = closed_bucket(grid, first);
  const TimeBucket second_bucket = closed_bucket(grid, second);
  source = second_bucket.max_bytes > first_bucket.max_bytes ? second : first;
  return {join(first_bucket, second_bucket), pair, last_change_until(second)->reserved_bytes};
}

// Closes the open bucket, joins all buckets in pairs, and opens the last joined one again. The
// bytes of the parts at its maximum become pending: they are void if a higher maximum comes.
void Timeline::join_pairs(const TimeGrid& grid) {
  follow(grid);
  for (PartTimeline& timeline : parts_) add_pending_bytes(grid, timeline);
  close_bucket(true);
  std::vector<Closed> joined;
  // for each of `joined`, the index of the bucket that had its maximum
  std::vector<std::size_t> sources;
  for (const Closed& change : changes_) {
    if (!joined.empty() && joined.back().index == change.index / 2) continue;
    joined.push_back(join_pair(grid, change.index / 2, sources.emplace_back()));
  }
  for (PartTimeline& timeline : parts_) join_pairs(timeline, joined, sources);
  changes_ = std::move(joined);
  open_ = changes_.back().bucket;
  closed_ = changes_.back().index;
  changes_.pop_back();
  first_ /= 2;
  for (PartTimeline& timeline : parts_) {
    timeline.pending.max_time = open_.max_time;
    timeline.pending.bucket = closed_;
  }
}

// Replaces the bytes of a part by those at the maxima of the joined buckets. The last joined bucket
// is open again, so its bytes become pending.
void Timeline::join_pairs(PartTimeline& timeline, const std::vector<Closed>& joined,
                          const std::vector<std::size_t>& sources) const {
  const std::vector<std::uint64_t> values = timeline.values(closed_);
  std::vector<std::uint64_t> kept;
  for (std::size_t i = 0; i < joined.size(); ++i) {
    while (kept.size() < joined[i].index) kept.push_back(values[2 * kept.size()]);
    kept.push_back(values[sources[i]]);
  }
  timeline.pending.bytes = kept.back();
  kept.pop_back();
  timeline.replace(kept);
}

void Timeline::restart(const TimeGrid& grid, std::uint64_t now,
                       const std::optional<TimeBucket>& before) {
  first_ = grid.present();
  closed_ = first_;
  changes_.clear();
  slots_.clear();
  parts_.clear();
  open_ = begin_bucket(now + 1);
  before_ = before;
  if (before_) before_->last_bytes = level_;
}

void Timeline::finish(const TimeGrid& grid) {
  follow(grid);
  for (PartTimeline& timeline : parts_) add_pending_bytes(grid, timeline);
  close_bucket(true);
}

std::vector<TimeBucket> Timeline::buckets(const TimeGrid& grid) const {
  std::vector<TimeBucket> buckets;
  buckets.reserve(closed_);
  for (std::size_t i = 0; i < closed_; ++i) buckets.push_back(closed_bucket(grid, i));
  return buckets;
}

std::vector<Timeline::Part> Timeline::parts() const {
  std::vector<Part> parts;
  parts.reserve(slots_.size());
  for (const auto& [id, slot] : slots_) parts.push_back({id, parts_[slot].values(closed_)});
  std::ranges::sort(parts, {}, &Part::id);
  return parts;
}

}  // namespace gpumemtrace::analyzer
