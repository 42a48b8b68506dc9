// SPDX-License-Identifier: Apache-2.0
#include "analyzer/job/job_clock.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace gpumemtrace::analyzer {

std::int64_t believable_ns(std::uint64_t ns) {
  // sixty years in nanoseconds; a later time becomes this one
  constexpr std::uint64_t kMostNs = 2'000'000'000'000'000'000;
  return static_cast<std::int64_t>(std::min(ns, kMostNs));
}

std::string boot_of(const std::string& boot_id, const std::string& path) {
  return boot_id.empty() ? "file " + path : boot_id;
}

ClockStart start_of(const std::string& boot, const Clock& clock, std::uint64_t start_realtime_ns) {
  ClockStart start;
  start.boot = boot;
  start.realtime_ns = believable_ns(start_realtime_ns);
  const std::vector<ClockPoint>& points = clock.points();
  if (points.empty()) return start;
  start.monotonic_ns = static_cast<std::int64_t>(points.front().monotonic_ns);
  if (points.front().realtime_ns != 0) {
    start.realtime_ns = believable_ns(points.front().realtime_ns);
  }
  return start;
}

// The start of the job on the monotonic clock of each process: the earliest start of a process on
// the same machine, less the delay of that start after the job's, by the time of day.
std::vector<std::int64_t> job_origins(const std::vector<ClockStart>& starts) {
  std::map<std::string, const ClockStart*> first_of_boot;
  for (const ClockStart& start : starts) {
    const ClockStart*& first = first_of_boot.try_emplace(start.boot, &start).first->second;
    if (start.monotonic_ns < first->monotonic_ns) first = &start;
  }
  std::int64_t job_start_realtime_ns = std::numeric_limits<std::int64_t>::max();
  for (const auto& [boot, first] : first_of_boot) {
    job_start_realtime_ns = std::min(job_start_realtime_ns, first->realtime_ns);
  }
  std::vector<std::int64_t> origins;
  for (const ClockStart& start : starts) {
    const ClockStart& first = *first_of_boot[start.boot];
    origins.push_back(first.monotonic_ns - (first.realtime_ns - job_start_realtime_ns));
  }
  return origins;
}

}  // namespace gpumemtrace::analyzer
