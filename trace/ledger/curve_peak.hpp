// SPDX-License-Identifier: Apache-2.0
// The maximum of a sum of two curves, of which one is known at all times and the other at samples
// only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// The bytes by which a sample exceeds the bytes that recorded calls have allocated. Negative if
// sample and sum of the calls are not of exactly the same time; `low` and `high` differ if the
// number is not known to the byte.
struct Beyond {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

struct CurveBounds {
  // bytes at the highest point, counting the larger of the samples around it
  std::uint64_t bytes = 0;
  std::uint64_t low_bytes = 0;  // the maximum is at least this
  // the maximum is at most this: `bytes`, unless part of the run is not known
  std::uint64_t high_bytes = 0;
  bool is_exact = false;   // the maximum is at a sample, so its bytes are known exactly
  bool is_at_end = false;  // the highest point came after the last sample
};

// The maximum of K + U. K is the bytes that recorded calls have allocated; U is the bytes that a
// sample shows beyond K. Between two samples U lies between the values of both; before the first
// sample, between 0 and its value; after the last sample, U stays.
//
//   K    ____/\______/\/\____
//   U    |     sample      |     the highest K since a sample is a candidate; the next sample
//                                bounds how much more there was
//
// `Point` has the members `called_bytes` and `at_sample`, which this class sets; take(point) sets
// all others to the present state.
template <class Point>
class CurvePeak {
 public:
  // Notes that calls now hold `called_bytes`.
  template <class Take>
  void change(std::uint64_t called_bytes, Take&& take) {
    if (called_bytes > candidate_.called_bytes) set_candidate(called_bytes, false, take);
  }

  // Adds a sample. True if the peak rose because this sample shows a larger U than the one before:
  // the caller then sets the parts of best() to the present ones.
  template <class Take>
  [[nodiscard]] bool sample(std::uint64_t called_bytes, const Beyond& beyond, Take&& take) {
    const Beyond before = was_sampled_ ? beyond_ : Beyond{};
    const std::uint64_t most =
        candidate_.called_bytes + positive(std::max(before.high, beyond.high));
    const std::uint64_t now = called_bytes + positive(beyond.high);
    low_bytes_ =
        std::max({low_bytes_, sum(candidate_.called_bytes, std::min(before.low, beyond.low)),
                  sum(called_bytes, beyond.low)});
    best_is_last_sample_ = now >= most;
    if (best_is_last_sample_) set_candidate(called_bytes, true, take);
    const Beyond& at_candidate = best_is_last_sample_ ? beyond : before;
    const bool is_exact = candidate_.at_sample && at_candidate.low == at_candidate.high &&
                          candidate_.called_bytes + positive(at_candidate.high) == most;
    const bool rises = most > high_bytes_ || (most == high_bytes_ && is_exact && !best_is_exact_);
    best_is_last_sample_ = best_is_last_sample_ && rises;
    if (rises) {
      high_bytes_ = most;
      best_is_exact_ = is_exact;
      std::swap(best_, candidate_);
    }
    const bool by_this_sample = rises && (!was_sampled_ || beyond.high > before.high);
    beyond_ = beyond;
    was_sampled_ = true;
    set_candidate(called_bytes, true, take);
    return by_this_sample;
  }

  // Adds `more_bytes` (modulo 2^64) to K, which the last sample had included already: its U shrinks
  // by as much. Calls move(point) for each point at or after that sample.
  template <class Move>
  void count_in_last_sample(std::uint64_t more_bytes, Move&& move) {
    if (!was_sampled_) return;
    beyond_.low = static_cast<std::int64_t>(static_cast<std::uint64_t>(beyond_.low) - more_bytes);
    beyond_.high = static_cast<std::int64_t>(static_cast<std::uint64_t>(beyond_.high) - more_bytes);
    for (Point* const point : {&candidate_, &best_}) {
      if (point == &best_ && !best_is_last_sample_) continue;
      point->called_bytes += more_bytes;
      move(*point);
    }
  }

  // Restores a part of the run whose records are gone: its maximum was from gone.low_bytes to
  // gone.high_bytes, with gone.bytes as the estimate, at a point at which K was `called_bytes`.
  // take(point) sets that point's other members.
  template <class Take>
  void restore(const CurveBounds& gone, std::uint64_t called_bytes, Take&& take) {
    was_sampled_ = true;
    low_bytes_ = std::max(low_bytes_, gone.low_bytes);
    gone_high_bytes_ = std::max(gone_high_bytes_, gone.high_bytes);
    if (gone.bytes <= high_bytes_) return;
    high_bytes_ = gone.bytes;
    best_is_exact_ = false;
    best_is_last_sample_ = false;
    best_.called_bytes = called_bytes;
    best_.at_sample = false;
    take(best_);
  }
  // Restores U at the last sample of the part of the run whose records are gone.
  void restore_last_sample(const Beyond& beyond) { beyond_ = beyond; }

  // Stores in a checkpoint's record all fields but the two points and gone_high_bytes_, which the
  // recorder never sets.
  void store(trace::CardCurve& record) const {
    record.high_bytes = high_bytes_;
    record.low_bytes = low_bytes_;
    record.low_beyond_bytes = beyond_.low;
    record.high_beyond_bytes = beyond_.high;
    record.was_sampled = was_sampled_;
    record.best_is_exact = best_is_exact_;
    record.best_is_last_sample = best_is_last_sample_;
  }
  void restore(const trace::CardCurve& record) {
    high_bytes_ = record.high_bytes;
    low_bytes_ = record.low_bytes;
    beyond_ = {record.low_beyond_bytes, record.high_beyond_bytes};
    was_sampled_ = record.was_sampled != 0;
    best_is_exact_ = record.best_is_exact != 0;
    best_is_last_sample_ = record.best_is_last_sample != 0;
  }

  [[nodiscard]] CurveBounds bounds() const {
    if (!was_sampled_) {
      const std::uint64_t bytes = candidate_.called_bytes;
      return {bytes, bytes, bytes, false, true};
    }
    CurveBounds bounds{high_bytes_, low_bytes_, high_bytes_, best_is_exact_, false};
    const std::uint64_t most = candidate_.called_bytes + positive(beyond_.high);
    const bool is_exact = candidate_.at_sample && beyond_.low == beyond_.high;
    bounds.low_bytes = std::max(low_bytes_, sum(candidate_.called_bytes, beyond_.low));
    if (most > high_bytes_ || (most == high_bytes_ && is_exact && !best_is_exact_)) {
      bounds.bytes = most;
      bounds.is_exact = is_exact;
      bounds.is_at_end = true;
    }
    bounds.high_bytes = std::max(bounds.bytes, gone_high_bytes_);
    bounds.is_exact = bounds.is_exact && bounds.low_bytes == bounds.high_bytes;
    return bounds;
  }
  [[nodiscard]] bool was_sampled() const { return was_sampled_; }
  [[nodiscard]] const Beyond& last_beyond() const { return beyond_; }
  [[nodiscard]] Point& candidate() { return candidate_; }
  [[nodiscard]] const Point& candidate() const { return candidate_; }
  [[nodiscard]] Point& best() { return best_; }
  [[nodiscard]] const Point& best() const { return best_; }
  // The highest point, which bounds() describes.
  [[nodiscard]] const Point& highest() const { return bounds().is_at_end ? candidate_ : best_; }

 private:
  [[nodiscard]] static std::uint64_t positive(std::int64_t bytes) {
    return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
  }
  [[nodiscard]] static std::uint64_t sum(std::uint64_t called_bytes, std::int64_t beyond) {
    return called_bytes + static_cast<std::uint64_t>(beyond);
  }
  template <class Take>
  void set_candidate(std::uint64_t called_bytes, bool at_sample, Take&& take) {
    candidate_.called_bytes = called_bytes;
    candidate_.at_sample = at_sample;
    take(candidate_);
  }

  Point candidate_;  // the point at which calls held most since the last sample
  Point best_;       // the highest point up to the last sample
  std::uint64_t high_bytes_ = 0;
  std::uint64_t low_bytes_ = 0;
  std::uint64_t gone_high_bytes_ = 0;  // upper bound for the part of the run whose records are gone
  Beyond beyond_;                      // U at the last sample
  bool was_sampled_ = false;
  bool best_is_exact_ = false;
  bool best_is_last_sample_ = false;
};

}  // namespace gpumemtrace::ledger
