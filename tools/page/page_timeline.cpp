// SPDX-License-Identifier: Apache-2.0
#include "tools/page/page_timeline.hpp"

#include <algorithm>
#include <utility>

namespace gpumemtrace::tools {
namespace {

using analyzer::rows::OptionalNumber;
using analyzer::rows::Timeline;
using analyzer::rows::TimelineBucket;

constexpr std::size_t kMostTimelines = 128;
constexpr std::size_t kMostBucketsTogether = 40'000;
constexpr std::size_t kLeastBuckets = 256;
constexpr std::size_t kMostBucketsOfRow = 8192;
constexpr std::size_t kFirstHasTimes = 4;

std::uint64_t largest_maximum(const Timeline& row) {
  std::uint64_t largest = 0;
  for (const TimelineBucket& bucket : row.buckets) largest = std::max(largest, bucket.max_bytes);
  return largest;
}

// Two adjacent buckets as one, with the details of the one that has the higher maximum.
TimelineBucket merged(const TimelineBucket& first, const TimelineBucket& second) {
  TimelineBucket bucket = first.max_bytes >= second.max_bytes ? first : second;
  bucket.start_ns = first.start_ns;
  bucket.end_ns = second.end_ns;
  const bool has_minimum = first.min_bytes && second.min_bytes;
  bucket.min_bytes = has_minimum ? std::min(first.min_bytes, second.min_bytes) : OptionalNumber();
  bucket.last_bytes = second.last_bytes;
  bucket.reserved_bytes = std::max(first.reserved_bytes, second.reserved_bytes);
  return bucket;
}

void thin_row(Timeline& row, std::size_t most) {
  std::vector<TimelineBucket>& buckets = row.buckets;
  while (buckets.size() > std::max<std::size_t>(most, 1)) {
    std::vector<TimelineBucket> fewer;
    for (std::size_t i = 0; i < buckets.size(); i += 2) {
      fewer.push_back(i + 1 < buckets.size() ? merged(buckets[i], buckets[i + 1])
                                             : std::move(buckets[i]));
    }
    buckets = std::move(fewer);
  }
}

}  // namespace

std::size_t most_buckets_of(std::size_t rows) {
  const std::size_t shown = std::clamp<std::size_t>(rows, 1, kMostTimelines);
  return std::clamp(kMostBucketsTogether / shown, kLeastBuckets, kMostBucketsOfRow);
}

void thin(std::vector<Timeline>& timeline, std::size_t most) {
  for (Timeline& row : timeline) thin_row(row, most);
}

std::vector<Timeline> thinned_timelines(const std::vector<Timeline>& timeline,
                                        const analyzer::rows::OptionalText& process,
                                        std::size_t most) {
  const auto is_first = [&](const Timeline& row) { return row.process == process; };
  std::vector<std::pair<std::uint64_t, const Timeline*>> rows;
  for (const Timeline& row : timeline) {
    rows.emplace_back(is_first(row) ? UINT64_MAX : largest_maximum(row), &row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  rows.resize(std::min(rows.size(), kMostTimelines));
  std::vector<Timeline> thinned;
  for (const auto& [maximum, row] : rows) {
    thinned.push_back(*row);
    thin_row(thinned.back(), is_first(*row) ? most * kFirstHasTimes : most);
  }
  return thinned;
}

}  // namespace gpumemtrace::tools
