// SPDX-License-Identifier: Apache-2.0
// The times of the driver's samples beside those of each second: soon after a call that makes the
// driver take memory by itself, and some times more, because the driver often takes it later than
// in that call.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpumemtrace::preload {

// Samples are kClosestNs apart at least, so there are at most twenty a second. After the last
// change the distance doubles until it is a second, when the sample of each second is as
// near:
//
//   change     sample at once, then after 50, 100, 200, 400, 800 ms
class SampleSchedule {
 public:
  static constexpr std::uint64_t kClosestNs = 50'000'000;
  static constexpr std::uint64_t kFarthestNs = 1'000'000'000;

  void change_seen(std::uint64_t now_ns) noexcept {
    const std::uint64_t soon_ns = std::max(now_ns, last_ns_ == 0 ? 0 : last_ns_ + kClosestNs);
    next_ns_ = next_ns_ == 0 ? soon_ns : std::min(next_ns_, soon_ns);
    distance_ns_ = kClosestNs;
  }
  [[nodiscard]] bool is_due(std::uint64_t now_ns) const noexcept {
    return next_ns_ != 0 && now_ns >= next_ns_;
  }
  void sampled(std::uint64_t now_ns) noexcept {
    last_ns_ = now_ns;
    follow_up(now_ns);
  }
  // There was nothing to sample.
  void passed_over(std::uint64_t now_ns) noexcept { follow_up(now_ns); }
  // A context was being torn down.
  void postponed(std::uint64_t now_ns) noexcept {
    constexpr std::uint64_t kPauseNs = 1'000'000;
    if (next_ns_ != 0) next_ns_ = now_ns + kPauseNs;
  }
  // The time without work, `most_ns` at most.
  [[nodiscard]] std::uint64_t pause_ns(std::uint64_t now_ns, std::uint64_t most_ns) const noexcept {
    if (next_ns_ == 0) return most_ns;
    return next_ns_ <= now_ns ? 0 : std::min(next_ns_ - now_ns, most_ns);
  }

 private:
  void follow_up(std::uint64_t now_ns) noexcept {
    if (next_ns_ == 0) return;
    next_ns_ = distance_ns_ < kFarthestNs ? now_ns + distance_ns_ : 0;
    distance_ns_ *= 2;
  }

  std::uint64_t last_ns_ = 0;
  std::uint64_t next_ns_ = 0;  // 0 = none
  std::uint64_t distance_ns_ = 0;
};

}  // namespace gpumemtrace::preload
