// SPDX-License-Identifier: Apache-2.0
#include "tools/page/page_timeline.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMostTimelines = 128;
constexpr std::size_t kMostBucketsTogether = 40'000;
constexpr std::size_t kLeastBuckets = 256;
constexpr std::size_t kMostBucketsOfRow = 8192;
constexpr std::size_t kFirstHasTimes = 4;

std::uint64_t largest_maximum(const Json& row) {
  std::uint64_t largest = 0;
  for (const Json& bucket : row.at("buckets")) {
    largest = std::max(largest, number_or_zero(bucket, "max_bytes"));
  }
  return largest;
}

// Not known if either is not known.
Json smaller_minimum(const Json& a, const Json& b) {
  const auto first = number_in(a, "min_bytes");
  const auto second = number_in(b, "min_bytes");
  return first && second ? Json(std::min(*first, *second)) : Json();
}

// The larger of two reservations, either of which may be unknown.
Json larger_reservation(const Json& a, const Json& b) {
  const auto first = number_in(a, "reserved_bytes");
  const auto second = number_in(b, "reserved_bytes");
  if (!first) return second ? Json(*second) : Json();
  return Json(std::max(*first, second.value_or(0)));
}

Json merged(const Json& first, const Json& second) {
  const bool is_first = number_or_zero(first, "max_bytes") >= number_or_zero(second, "max_bytes");
  Json bucket = is_first ? first : second;  // its maximum, the instant of it and the parts
  bucket["start_ns"] = first.at("start_ns");
  bucket["end_ns"] = second.at("end_ns");
  bucket["min_bytes"] = smaller_minimum(first, second);
  bucket["last_bytes"] = second.at("last_bytes");
  bucket["reserved_bytes"] = larger_reservation(first, second);
  return bucket;
}

Json thinned_row(const Json& row, std::size_t most) {
  const Json& all = row.at("buckets");
  std::vector<Json> buckets(all.begin(), all.end());
  while (buckets.size() > std::max<std::size_t>(most, 1)) {
    std::vector<Json> fewer;
    for (std::size_t i = 0; i < buckets.size(); i += 2) {
      fewer.push_back(i + 1 < buckets.size() ? merged(buckets[i], buckets[i + 1])
                                             : std::move(buckets[i]));
    }
    buckets = std::move(fewer);
  }
  Json thinned = row;
  thinned["buckets"] = Json(std::move(buckets));
  return thinned;
}

}  // namespace

std::size_t most_buckets_of(const Json& timeline) {
  const std::size_t rows = std::clamp<std::size_t>(timeline.size(), 1, kMostTimelines);
  return std::clamp(kMostBucketsTogether / rows, kLeastBuckets, kMostBucketsOfRow);
}

Json thinned_timeline(const Json& timeline, std::size_t most) {
  Json thinned = Json::array();
  for (const Json& row : timeline) thinned.push_back(thinned_row(row, most));
  return thinned;
}

Json thinned_timelines(const Json& timeline, const Json& process, std::size_t most) {
  const auto is_first = [&](const Json& row) { return row.at("process") == process; };
  std::vector<std::pair<std::uint64_t, const Json*>> rows;
  for (const Json& row : timeline) {
    rows.emplace_back(is_first(row) ? UINT64_MAX : largest_maximum(row), &row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  rows.resize(std::min(rows.size(), kMostTimelines));
  Json thinned = Json::array();
  for (const auto& [maximum, row] : rows) {
    thinned.push_back(thinned_row(*row, is_first(*row) ? most * kFirstHasTimes : most));
  }
  return thinned;
}

}  // namespace gpumemtrace::tools
