// SPDX-License-Identifier: Apache-2.0
// The live bytes of one level (ledger::Level) on one device over the whole run, and what used them
// at the maximum of every stretch of the run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analyzer/model/accounts/time_grid.hpp"

namespace gpumemtrace::analyzer {

// The live bytes in one stretch of the run.
struct TimeBucket {
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  // Model time of the first maximum; if the bytes were that high when the stretch began, the tick
  // before its begin.
  std::uint64_t max_time = 0;
  std::uint64_t last_bytes = 0;
  std::uint64_t reserved_bytes = 0;  // the most bytes that were reserved in the stretch
  bool is_quiet = true;              // nothing changed in the stretch
};

// Makes one stretch of two neighbours.
[[nodiscard]] TimeBucket join(const TimeBucket& first, const TimeBucket& second);

// The bytes of one part of the memory at the maximum of every bucket. They are kept as differences
// between neighbours, so that a long life costs as much as a short one.
class PartTimeline {
 public:
  // Adds bytes to all buckets from `first` up to but without `end`.
  void add(std::size_t first, std::size_t end, std::uint64_t bytes) {
    at(first) += bytes;
    at(end) -= bytes;
  }
  // The part's bytes, one value for each bucket.
  [[nodiscard]] std::vector<std::uint64_t> values(std::size_t buckets) const;
  void replace(const std::vector<std::uint64_t>& values);

  // The bytes at the maximum of the open bucket. They hold as long as its maximum stays at
  // `max_time`.
  struct Pending {
    std::uint64_t bytes = 0;
    std::uint64_t max_time = 0;
    std::size_t bucket = 0;
  };
  Pending pending;

 private:
  static constexpr std::size_t kPageValues = 64;
  using Page = std::array<std::uint64_t, kPageValues>;

  std::uint64_t& at(std::size_t index) {
    const std::size_t page = index / kPageValues;
    if (page >= pages_.size() || pages_[page] == nullptr) add_page(page);
    return (*pages_[page])[index % kPageValues];
  }
  void add_page(std::size_t page);

  std::vector<std::unique_ptr<Page>> pages_;  // differences in pages; nullptr = all 0
};

// - Changes come in the order of time. The caller first moves the grid to the time of a change.
// - The part (a category, an owner) of a piece of memory becomes known when it is freed, or at the
//   end of the trace. The piece is then added to that part in every bucket whose maximum came while
//   the piece was live. A bucket that is still open loses the sums of its parts when it gets a
//   higher maximum.
// - An event costs two comparisons; freeing memory that was live at a maximum costs three
//   additions. Memory: 64 bytes for each bucket with a change, and 512 for each part and 64 buckets
//   that it changes in.
class Timeline {
 public:
  void rise(const TimeGrid& grid, std::uint64_t bytes, std::uint64_t now) {
    change(grid);
    level_ += bytes;
    if (level_ <= open_.max_bytes) return;
    open_.max_bytes = level_;
    open_.max_time = now;
  }
  void fall(const TimeGrid& grid, std::uint64_t bytes) {
    change(grid);
    level_ -= bytes;
    if (level_ < open_.min_bytes) open_.min_bytes = level_;
  }
  void set_reserved(const TimeGrid& grid, std::uint64_t bytes) {
    if (bytes == reserved_bytes_ && knows_reserved_) return;
    change(grid);
    knows_reserved_ = true;
    reserved_bytes_ = bytes;
    if (bytes > open_.reserved_bytes) open_.reserved_bytes = bytes;
  }

  // True if memory born at `born` that is freed now was live at the maximum of some bucket. To be
  // called before fall().
  [[nodiscard]] bool was_live_at_a_maximum(const TimeGrid& grid, std::uint64_t born) {
    follow(grid);
    return born <= open_.max_time;
  }
  // Adds a life of memory that belonged to the part; called if was_live_at_a_maximum() is true.
  // Adds modulo 2^64: memory that had another size for a time is corrected by the difference.
  void count_life(const TimeGrid& grid, std::uint32_t part, std::uint64_t born,
                  std::uint64_t bytes);

  // Joins neighbouring buckets: the higher maximum of the two stays, with its parts. Called before
  // the grid's own join_pairs().
  void join_pairs(const TimeGrid& grid);
  // Forgets the buckets up to now, which a checkpoint has replaced; `before` is the checkpoint's
  // highest point, if it had one. Live and reserved bytes stay.
  void restart(const TimeGrid& grid, std::uint64_t now, const std::optional<TimeBucket>& before);
  // Closes the open bucket: the run is over.
  void finish(const TimeGrid& grid);

  // All buckets of the grid; to be called after finish().
  [[nodiscard]] std::vector<TimeBucket> buckets(const TimeGrid& grid) const;
  // The first bucket with data; later than 0 only if restart() was called.
  [[nodiscard]] std::size_t first() const { return first_; }
  // The run up to restart() as one bucket, the minimum of which is not known.
  [[nodiscard]] const std::optional<TimeBucket>& before() const { return before_; }
  [[nodiscard]] bool knows_reserved() const { return knows_reserved_; }
  struct Part {
    std::uint32_t id = 0;
    std::vector<std::uint64_t> bytes;  // the part's bytes, one value a bucket
  };
  // The parts in the order of their ids.
  [[nodiscard]] std::vector<Part> parts() const;

 private:
  // An entry of `changes_`: a closed bucket in which something changed, or the first or last one.
  // The buckets between two entries had no change: their bytes are those at the end of the former
  // entry.
  struct Closed {
    TimeBucket bucket;
    std::size_t index = 0;
    std::uint64_t reserved_bytes = 0;  // bytes reserved at the bucket's end
  };

  void follow(const TimeGrid& grid) {
    if (closed_ != grid.present()) catch_up(grid);
  }
  void change(const TimeGrid& grid) {
    follow(grid);
    open_.is_quiet = false;
  }
  void catch_up(const TimeGrid& grid);
  [[nodiscard]] TimeBucket begin_bucket(std::uint64_t start) const {
    return {level_, level_, start - 1, level_, reserved_bytes_, true};
  }
  // Closes the open bucket. It gets an entry in `changes_` if something changed in it or if
  // `is_kept`.
  void close_bucket(bool is_kept);
  [[nodiscard]] Closed join_pair(const TimeGrid& grid, std::size_t pair, std::size_t& source) const;
  void join_pairs(PartTimeline& timeline, const std::vector<Closed>& joined,
                  const std::vector<std::size_t>& sources) const;
  // The last entry of `changes_` that is not after the bucket.
  [[nodiscard]] std::vector<Closed>::const_iterator last_change_until(std::size_t index) const;
  [[nodiscard]] TimeBucket closed_bucket(const TimeGrid& grid, std::size_t index) const;
  [[nodiscard]] PartTimeline& timeline_of(std::uint32_t part);
  // Adds the part's pending bytes to their bucket if the bucket's maximum is still the same.
  void add_pending_bytes(const TimeGrid& grid, PartTimeline& timeline) const;

  std::uint64_t level_ = 0;
  std::uint64_t reserved_bytes_ = 0;
  bool knows_reserved_ = false;
  TimeBucket open_;
  std::size_t closed_ = 0;  // number of closed buckets
  std::vector<Closed> changes_;
  std::size_t first_ = 0;
  std::optional<TimeBucket> before_;
  std::unordered_map<std::uint32_t, std::uint32_t> slots_;  // index in parts_ by the part's id
  std::vector<PartTimeline> parts_;                         // parts in the order of their first use
};

}  // namespace gpumemtrace::analyzer
