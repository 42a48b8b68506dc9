// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/timeline.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

// Of two that are equally high, the first.
const TimeBucket& higher(const TimeBucket& first, const TimeBucket& second) {
  return second.max_bytes > first.max_bytes ? second : first;
}

TimeBucket join(const TimeBucket& first, const TimeBucket& second) {
  TimeBucket joined = higher(first, second);
  joined.min_bytes = std::min(first.min_bytes, second.min_bytes);
  joined.last_bytes = second.last_bytes;
  joined.reserved_bytes = std::max(first.reserved_bytes, second.reserved_bytes);
  joined.is_quiet = first.is_quiet && second.is_quiet;
  return joined;
}

}  // namespace

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
  if (part >= slots_.size()) slots_.resize(part + 1, kNoSlot);
  if (slots_[part] == kNoSlot) {
    slots_[part] = static_cast<std::uint32_t>(parts_.size());
    parts_.emplace_back();
  }
  return parts_[slots_[part]];
}

void Timeline::settle(PartTimeline& timeline) const {
  const PartTimeline::Pending pending = timeline.pending;
  timeline.pending = {};
  if (pending.bytes == 0) return;
  const TimeBucket& bucket = pending.bucket < closed_.size() ? closed_[pending.bucket] : open_;
  if (bucket.max_time == pending.max_time) {
    timeline.add(pending.bucket, pending.bucket + 1, pending.bytes);
  }
}

void Timeline::count_life(const TimeGrid& grid, std::uint32_t part, std::uint64_t born,
                          std::uint64_t bytes) {
  PartTimeline& timeline = timeline_of(part);
  const std::size_t present = closed_.size();
  if (timeline.pending.bucket != present || timeline.pending.max_time != open_.max_time) {
    settle(timeline);
    timeline.pending = {0, open_.max_time, present};
  }
  timeline.pending.bytes += bytes;
  std::size_t first = std::max(grid.index_of(born), first_);
  if (first >= present) return;
  if (closed_[first].max_time < born) ++first;
  timeline.add(first, present, bytes);
}

void Timeline::catch_up(const TimeGrid& grid) {
  open_.last_bytes = level_;
  closed_.push_back(open_);
  while (closed_.size() < grid.present()) {
    closed_.push_back(begin_bucket(grid.start_of(closed_.size())));
  }
  open_ = begin_bucket(grid.start_of(grid.present()));
}

// What is known of the open bucket goes into the pending bytes of its successor, which a higher
// maximum makes worthless.
void Timeline::join_pairs(const TimeGrid& grid) {
  follow(grid);
  open_.last_bytes = level_;
  for (PartTimeline& timeline : parts_) settle(timeline);
  closed_.push_back(open_);
  std::vector<std::size_t> sources;  // of the joined buckets' maxima
  std::vector<TimeBucket> joined;
  for (std::size_t i = 0; i < closed_.size(); i += 2) {
    const bool is_alone = i + 1 == closed_.size();
    const bool begins_here = i + 1 == first_;  // of the first one nothing is known
    const TimeBucket& first = closed_[begins_here ? i + 1 : i];
    const TimeBucket& second = closed_[is_alone ? i : i + 1];
    joined.push_back(join(first, second));
    sources.push_back(static_cast<std::size_t>(&higher(first, second) - closed_.data()));
  }
  first_ /= 2;
  open_ = joined.back();
  joined.pop_back();
  for (PartTimeline& timeline : parts_) {
    const std::vector<std::uint64_t> values = timeline.values(closed_.size());
    std::vector<std::uint64_t> kept;
    for (std::size_t i = 0; i < joined.size(); ++i) kept.push_back(values[sources[i]]);
    timeline.replace(kept);
    timeline.pending = {values[sources.back()], open_.max_time, joined.size()};
  }
  closed_ = std::move(joined);
}

void Timeline::restart(const TimeGrid& grid, std::uint64_t now,
                       const std::optional<TimeBucket>& before) {
  first_ = grid.present();
  closed_.assign(first_, {});
  slots_.clear();
  parts_.clear();
  open_ = begin_bucket(now + 1);
  before_ = before;
  if (before_) before_->last_bytes = level_;
}

void Timeline::finish(const TimeGrid& grid) {
  follow(grid);
  for (PartTimeline& timeline : parts_) settle(timeline);
  open_.last_bytes = level_;
  closed_.push_back(open_);
}

std::vector<Timeline::Part> Timeline::parts() const {
  std::vector<Part> parts;
  for (std::uint32_t id = 0; id < slots_.size(); ++id) {
    if (slots_[id] == kNoSlot) continue;
    parts.push_back({id, parts_[slots_[id]].values(closed_.size())});
  }
  return parts;
}

}  // namespace gpumemtrace::analyzer
