// SPDX-License-Identifier: Apache-2.0
// The live bytes of one level on one device over the whole run, with their use at the maximum of
// every stretch.
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

// A stretch of the run.
struct TimeBucket {
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  // Model time of the first maximum; if memory was already there when the stretch began, the tick
  // before it.
  std::uint64_t max_time = 0;
  std::uint64_t last_bytes = 0;
  std::uint64_t reserved_bytes = 0;  // the most that was reserved in it
  bool is_quiet = true;              // nothing changed in it
};

// Two neighbours as one.
[[nodiscard]] TimeBucket join(const TimeBucket& first, const TimeBucket& second);

// Bytes of one part of the memory at the maximum of every bucket. Kept as differences between
// neighbours, so that a long life costs as much as a short one.
class PartTimeline {
 public:
  // For all buckets from `first` on that end before `end`.
  void add(std::size_t first, std::size_t end, std::uint64_t bytes) {
    at(first) += bytes;
    at(end) -= bytes;
  }
  // One value for each bucket.
  [[nodiscard]] std::vector<std::uint64_t> values(std::size_t buckets) const;
  void replace(const std::vector<std::uint64_t>& values);

  // The bytes at the maximum of the open bucket, counted for its maximum at that time.
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

  std::vector<std::unique_ptr<Page>> pages_;  // none for buckets where nothing changes
};

// - Changes come in the order of time. The caller first moves the grid to the time of a change.
// - The part (a category, an owner) of a piece of memory becomes known when it is freed, or at the
//   end. The piece is then added to that part in every bucket whose maximum came while it was
//   live. A bucket that is still open loses this when it gets a higher maximum.
// - An event costs two comparisons; freeing memory that was live at a maximum three additions.
//   Memory: 64 bytes for each bucket with a change, and 512 for each part and 64 buckets that it
//   changes in.
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

  // True if memory born at `born` that is freed now was live at the maximum of some bucket. Asked
  // before fall().
  [[nodiscard]] bool was_live_at_a_maximum(const TimeGrid& grid, std::uint64_t born) {
    follow(grid);
    return born <= open_.max_time;
  }
  // The memory belonged to the part; called if was_live_at_a_maximum() is true. Adds modulo 2^64:
  // memory that had another size for a time is corrected by the difference.
  void count_life(const TimeGrid& grid, std::uint32_t part, std::uint64_t born,
                  std::uint64_t bytes);

  // Joins neighbours, of which the higher maximum stays with its parts. Before the grid's own
  // join_pairs().
  void join_pairs(const TimeGrid& grid);
  // Forgets the run up to now, except for a checkpoint's highest point, if it had one, and the most
  // that was reserved. Live memory stays live.
  void restart(const TimeGrid& grid, std::uint64_t now, const std::optional<TimeBucket>& before);
  // Closes the open bucket: the run is over.
  void finish(const TimeGrid& grid);

  // As many as the grid has, once finished.
  [[nodiscard]] std::vector<TimeBucket> buckets(const TimeGrid& grid) const;
  // The first bucket with data; later than 0 only if restart() was called.
  [[nodiscard]] std::size_t first() const { return first_; }
  // The run up to restart() as one bucket, of which the minimum is not known.
  [[nodiscard]] const std::optional<TimeBucket>& before() const { return before_; }
  [[nodiscard]] bool knows_reserved() const { return knows_reserved_; }
  struct Part {
    std::uint32_t id = 0;
    std::vector<std::uint64_t> bytes;  // one value a bucket
  };
  // In the order of their ids.
  [[nodiscard]] std::vector<Part> parts() const;

 private:
  // A closed bucket with a change, or the first or last one. Buckets up to the next of these are
  // like its end.
  struct Closed {
    TimeBucket bucket;
    std::size_t index = 0;
    std::uint64_t reserved_bytes = 0;  // at its end
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
  // It is in the list of changes if something changed in it, and if it `is_kept`.
  void close_bucket(bool is_kept);
  [[nodiscard]] Closed join_pair(const TimeGrid& grid, std::size_t pair, std::size_t& source) const;
  void join_pairs(PartTimeline& timeline, const std::vector<Closed>& joined,
                  const std::vector<std::size_t>& sources) const;
  // The last of them that is not after the bucket.
  [[nodiscard]] std::vector<Closed>::const_iterator last_change_until(std::size_t index) const;
  [[nodiscard]] TimeBucket closed_bucket(const TimeGrid& grid, std::size_t index) const;
  [[nodiscard]] PartTimeline& timeline_of(std::uint32_t part);
  // Counts the pending bytes of the bucket if its maximum is unchanged.
  void settle(const TimeGrid& grid, PartTimeline& timeline) const;

  std::uint64_t level_ = 0;
  std::uint64_t reserved_bytes_ = 0;
  bool knows_reserved_ = false;
  TimeBucket open_;
  std::size_t closed_ = 0;  // number of closed buckets
  std::vector<Closed> changes_;
  std::size_t first_ = 0;
  std::optional<TimeBucket> before_;
  std::unordered_map<std::uint32_t, std::uint32_t> slots_;  // by part
  std::vector<PartTimeline> parts_;                         // by slot
};

}  // namespace gpumemtrace::analyzer
