// SPDX-License-Identifier: Apache-2.0
#include "analyzer/base/clock.hpp"

#include <algorithm>
#include <cmath>

namespace gpumemtrace::analyzer {
namespace {

// Calibrations closer together than this would give a rate that is mostly jitter.
constexpr std::uint64_t kMinPieceNs = 10'000'000;

// The latest time that is believed, about sixty years: a later one in a file is damage. Sums and
// differences of three times then fit into 64 bits.
constexpr std::uint64_t kMaxNs = 2'000'000'000'000'000'000;

constexpr double kExactDouble = 9.0e15;  // whole numbers below this are exact in a double
constexpr double kMaxTicks = 9.2e18;     // a number of ticks up to this fits into 63 bits

double rate(const ClockPoint& from, const ClockPoint& to) {
  return static_cast<double>(to.monotonic_ns - from.monotonic_ns) /
         static_cast<double>(to.ticks - from.ticks);
}

bool usable(const ClockPoint& from, const ClockPoint& to) {
  return to.ticks > from.ticks && to.monotonic_ns > from.monotonic_ns;
}

// Sorts calibrations by time and drops those that run backwards. A calibration that follows too
// soon on the one before replaces it; only the first calibration is never replaced.
std::vector<ClockPoint> select(std::vector<ClockPoint> points) {
  std::ranges::stable_sort(points, {}, &ClockPoint::ticks);
  std::vector<ClockPoint> selected;
  for (const ClockPoint& point : points) {
    if (point.monotonic_ns > kMaxNs) continue;
    if (!selected.empty() && !usable(selected.back(), point)) continue;
    const bool too_close =
        selected.size() > 1 && point.monotonic_ns - selected.back().monotonic_ns < kMinPieceNs;
    if (too_close) {
      selected.back() = point;
    } else {
      selected.push_back(point);
    }
  }
  return selected;
}

std::int64_t offset_ns(std::uint64_t ticks, std::uint64_t origin, double ns_per_tick) {
  const auto distance = static_cast<double>(static_cast<std::int64_t>(ticks - origin));
  const double ns = distance * ns_per_tick;
  constexpr auto kLimit = static_cast<double>(kMaxNs);
  return static_cast<std::int64_t>(std::clamp(ns, -kLimit, kLimit));
}

}  // namespace

Clock::Clock(std::vector<ClockPoint> points, std::uint64_t ticks_per_second)
    : points_(select(std::move(points))) {
  if (points_.size() >= 2) {
    ns_per_tick_ = rate(points_.front(), points_.back());
  } else if (ticks_per_second != 0) {
    ns_per_tick_ = 1e9 / static_cast<double>(ticks_per_second);
  }
  if (points_.empty()) {
    pieces_.front().ns_per_tick = ns_per_tick_;
    return;
  }
  pieces_.clear();
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const bool last = i + 1 == points_.size();
    const double ns_per_tick = last ? ns_per_tick_ : rate(points_[i], points_[i + 1]);
    pieces_.push_back(
        {points_[i].ticks, static_cast<std::int64_t>(points_[i].monotonic_ns), ns_per_tick});
  }
}

// The linear piece in which `time` lies. `begin`: the member of Piece with which `time` is
// compared, ticks or ns.
template <class Time>
const Clock::Piece& Clock::piece_at(Time Piece::*begin, Time time) const {
  const auto after = std::ranges::upper_bound(pieces_, time, {}, begin);
  return after == pieces_.begin() ? pieces_.front() : *(after - 1);
}

std::int64_t Clock::to_monotonic_ns(std::uint64_t ticks) const {
  const Piece& piece = piece_at(&Piece::ticks, ticks);
  return piece.ns + offset_ns(ticks, piece.ticks, piece.ns_per_tick);
}

std::uint64_t Clock::to_job_ns(std::uint64_t ticks) const {
  const std::int64_t ns = to_monotonic_ns(ticks) - origin_ns_;
  return ns < 0 ? 0 : static_cast<std::uint64_t>(ns);
}

std::uint64_t Clock::to_ticks(std::uint64_t job_ns) const {
  const auto ns = static_cast<std::int64_t>(job_ns) + origin_ns_;
  const Piece& piece = piece_at(&Piece::ns, ns);
  const double distance = std::floor(static_cast<double>(ns - piece.ns) / piece.ns_per_tick);
  const double ticks = static_cast<double>(piece.ticks) + distance;
  if (ticks <= 0) return 0;
  // Adds as integers: the distance is exact as a double, but the sum may be too large for that.
  if (std::abs(distance) < kExactDouble) {
    return piece.ticks + static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
  }
  return static_cast<std::uint64_t>(std::min(ticks, kMaxTicks));
}

std::uint64_t Clock::duration_ns(std::uint64_t ticks) const {
  const double ns = static_cast<double>(ticks) * ns_per_tick_;
  return ns >= static_cast<double>(kMaxNs) ? kMaxNs : static_cast<std::uint64_t>(ns);
}

std::uint64_t Clock::error_ns() const {
  std::uint64_t largest = 0;
  for (const ClockPoint& point : points_) largest = std::max(largest, point.uncertainty_ticks);
  return duration_ns(largest);
}

}  // namespace gpumemtrace::analyzer
