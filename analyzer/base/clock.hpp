// SPDX-License-Identifier: Apache-2.0
// Converts ticks of a recorder's clock to nanoseconds of the job.
#pragma once

#include <cstdint>
#include <vector>

namespace gpumemtrace::analyzer {

// One calibration of a process's tick counter.
struct ClockPoint {
  std::uint64_t ticks = 0;
  std::uint64_t monotonic_ns = 0;
  std::uint64_t realtime_ns = 0;
  std::uint64_t uncertainty_ticks = 0;
};

// The clock of one process: piecewise linear between its calibrations, and extrapolated before the
// first and after the last.
// - Times are those of the machine's monotonic clock less an origin, which joins the processes of a
//   job (see set_origin).
// - With fewer than two calibrations, the tick rate in the trace's header is used; without such a
//   rate, a tick counts as 1 ns.
class Clock {
 public:
  Clock() = default;
  Clock(std::vector<ClockPoint> points, std::uint64_t ticks_per_second);

  // Nanoseconds from the job's start to the tick; 0 for earlier ticks.
  [[nodiscard]] std::uint64_t to_job_ns(std::uint64_t ticks) const;
  // The last tick that is not after the time `job_ns`.
  [[nodiscard]] std::uint64_t to_ticks(std::uint64_t job_ns) const;
  // Converts a number of ticks to nanoseconds, by the average rate.
  [[nodiscard]] std::uint64_t duration_ns(std::uint64_t ticks) const;

  [[nodiscard]] double ns_per_tick() const { return ns_per_tick_; }  // the clock's average rate
  [[nodiscard]] bool calibrated() const { return points_.size() >= 2; }
  [[nodiscard]] const std::vector<ClockPoint>& points() const { return points_; }
  // Largest uncertainty of a calibration.
  [[nodiscard]] std::uint64_t error_ns() const;

  // Sets the job's start, as a time of this process's monotonic clock.
  void set_origin(std::int64_t origin_monotonic_ns) { origin_ns_ = origin_monotonic_ns; }
  [[nodiscard]] std::int64_t to_monotonic_ns(std::uint64_t ticks) const;

 private:
  struct Piece {
    std::uint64_t ticks = 0;
    std::int64_t ns = 0;
    double ns_per_tick = 1.0;
  };

  // The linear piece in which `time` lies: a number of ticks if `begin` is &Piece::ticks, or of
  // nanoseconds if it is &Piece::ns.
  template <class Time>
  [[nodiscard]] const Piece& piece_at(Time Piece::*begin, Time time) const;

  std::vector<ClockPoint> points_;
  std::vector<Piece> pieces_{Piece{}};
  double ns_per_tick_ = 1.0;
  std::int64_t origin_ns_ = 0;
};

}  // namespace gpumemtrace::analyzer
