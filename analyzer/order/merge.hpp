// SPDX-License-Identifier: Apache-2.0
// Merges the records of all writers (threads) of one process into the order in which they took
// effect (trace/order.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "analyzer/base/radix_sort.hpp"
#include "trace/image.hpp"
#include "trace/order.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {

// A record and its sort key (trace/order.hpp).
struct PlacedRecord {
  std::uint64_t key = 0;
  trace::RecordHeader* record = nullptr;
};

[[nodiscard]] trace::ReadLosses operator+(trace::ReadLosses sum, const trace::ReadLosses& more);
// True if the record is a free of the address that took effect.
[[nodiscard]] bool is_free_of(const trace::RecordHeader& record, std::uint64_t address);

// The progress in reading one writer's records: enough to go on when the same file is opened later.
struct WriterProgress {
  trace::StreamPosition position;
  bool has_begun = false;
  std::uint64_t last_key = 0;  // sort key of the last record that was taken
  trace::ReadLosses losses;    // damage in the pieces before the position's piece
};

// Frees that take_free() made take effect before their turn: the free's key, and the address.
using TakenFrees = std::multimap<std::uint64_t, std::uint64_t>;

// Which records of a writer may be taken.
enum class Extent : std::uint8_t {
  kAll,
  // Only records before the first call that may still return: its outcome is not known. A call
  // that is not in the recorder's ring any more, but in the file, will not return, nor will a call
  // with a later call of the same thread.
  kReturned,
};

// Reads the records of one writer (thread).
//
// - Keys never decrease from a record to the next, whatever the records' times.
// - Holds one decoded piece in memory; more only if look_ahead() goes beyond that piece.
class WriterRecords {
 public:
  // Continues after the records that were passed up to `from`. `taken`: frees among the remaining
  // records that have taken effect already; must outlive this object.
  WriterRecords(const trace::TraceFile& file, const trace::WriterStream& stream, Extent extent,
                const WriterProgress& from, const TakenFrees& taken);

  [[nodiscard]] std::uint32_t writer() const { return writer_; }
  // False if the file does not have the position of `from`.
  [[nodiscard]] bool found() const { return cursor_.found(); }

  // Reads the next piece if all records of the present piece were passed; the memory of these is
  // freed. False at the end of the stream.
  [[nodiscard]] bool refill();
  // The keys of the next records in the present piece.
  [[nodiscard]] std::span<const std::uint64_t> keys() const {
    return std::span(present_.image.keys).subspan(next_);
  }
  // The record that belongs to keys()[index].
  [[nodiscard]] trace::RecordHeader* record(std::size_t index) {
    return present_.image.record(next_ + index);
  }
  // Passes the next `records` records of the present piece, which stay in memory until refill().
  void pass(std::size_t records) { next_ += records; }

  // The record at that distance from the next one, in any piece; PlacedRecord::record is nullptr if
  // the stream ends before.
  [[nodiscard]] PlacedRecord look_ahead(std::size_t distance);
  // The first record in memory, passed records included, whose key is at least `key`; if there is
  // none, look_ahead(0).
  [[nodiscard]] PlacedRecord first_from(std::uint64_t key);

  static constexpr std::uint64_t kNoHold = std::numeric_limits<std::uint64_t>::max();
  // The key of the call that has not returned (Extent::kReturned), before which taking must stop;
  // kNoHold if there is none. Known once all records before the call were read.
  [[nodiscard]] std::uint64_t hold() const { return hold_; }
  // The damage found so far in the writer's records.
  [[nodiscard]] trace::ReadLosses losses() const;
  // The progress as if the last `returned` records were not passed. They must be records of the
  // present piece.
  [[nodiscard]] WriterProgress progress(std::size_t returned = 0) const;

 private:
  struct Piece {
    trace::Image image;
    trace::StreamPosition begin;
    trace::ReadLosses losses;  // damage in the pieces before this one
  };
  [[nodiscard]] bool read(Piece& piece, std::size_t& first);
  void leave_out_open_calls(trace::Image& image);
  void disable_taken_frees(trace::Image& image) const;

  Piece present_;
  std::size_t next_ = 0;  // index of the next record in present_
  trace::WriterCursor cursor_;
  std::uint32_t writer_ = 0;
  Extent extent_ = Extent::kAll;
  bool has_ended_ = false;  // the stream was ended before a call that has not returned
  std::uint64_t hold_ = kNoHold;
  std::uint64_t last_key_ = 0;  // key of the last record that was read
  trace::ReadLosses before_;    // damage in the pieces before the cursor's first piece
  WriterProgress passed_;       // the progress up to the present piece
  const TakenFrees* taken_ = nullptr;
  std::deque<Piece> later_;  // pieces after the present one that were read already
};

// Lets the model look ahead in the other threads' records: for a free, and for the next event.
class LookAhead {
 public:
  virtual ~LookAhead() = default;
  // Searches a short stretch of the other writers' records for a successful free of the address. If
  // there is one, takes it out of the order and returns true: the caller applies it now. If several
  // writers have such a free, takes that of the smallest writer.
  [[nodiscard]] virtual bool take_free(std::uint64_t address) = 0;
  // The tick at which the next record of `writer` takes effect; the largest number if it has no
  // more records. `writer` must not be the present record's.
  [[nodiscard]] virtual std::uint64_t next_ticks_of(std::uint32_t writer) = 0;
};

// The progress of a merge: enough to go on when the same file is opened later.
struct MergeProgress {
  std::map<std::uint32_t, WriterProgress> writers;
  std::uint64_t last_key = 0;  // key of the last record that was passed; last_writer is its writer
  std::uint32_t last_writer = 0;
  TakenFrees taken;  // frees taken early with keys of last_key or later
  std::uint64_t records = 0;
};

// The records that a merge passes: those of each writer within `extent` and with keys up to
// `last_key`. With Extent::kReturned, the first open call, unless it allocates, is a limit for all
// writers.
struct MergeLimit {
  Extent extent = Extent::kAll;
  std::uint64_t last_key = std::numeric_limits<std::uint64_t>::max() - 1;
};

// - A writer's records stay in their own order, whatever their times. Records of different writers
//   with the same key come in the order of the writers.
// - Records are put in order window by window, by a radix sort: a window has the next records of
//   every writer up to the first position behind which a writer's records may not be in memory. So
//   no record waits for a comparison, and the next records are known early enough to prefetch them.
//
//     writer 1   a......b.c...|
//     writer 2   .d.e.......f.....|
//     writer 3   ...............g.|
//
//   Letters are decoded records, | is the end of a decoded piece. The window is a d e b c; then
// writer 1 reads its next piece. Writer 3 sleeps: its next record lies behind the window.
//
// - A writer that sleeps costs no time per window.
class ProcessMerge final : public LookAhead {
 public:
  // Keeps a pointer to `file`, but none to `from`.
  explicit ProcessMerge(const trace::TraceFile& file, const MergeLimit& limit = {},
                        const MergeProgress& from = {});
  ProcessMerge(const ProcessMerge&) = delete;
  ProcessMerge& operator=(const ProcessMerge&) = delete;

  static constexpr std::uint64_t kNoMore = std::numeric_limits<std::uint64_t>::max();
  // The sort key of the next record, or kNoMore.
  [[nodiscard]] std::uint64_t next_key() const {
    return next_ == end_ || key_of(*next_) > last_key_ ? kNoMore : key_of(*next_);
  }
  // Passes the records with keys up to `last_key`, which must not be kNoMore, but at most
  // `max_records`, to sink.apply(record, writer, ticks); `ticks` is when the record took effect.
  template <class Sink>
  void run_until(std::uint64_t last_key, std::uint64_t max_records, Sink& sink);

  [[nodiscard]] bool take_free(std::uint64_t address) override;
  [[nodiscard]] std::uint64_t next_ticks_of(std::uint32_t writer) override;
  // The damage found when the file was opened and in the records read.
  [[nodiscard]] trace::ReadLosses losses() const;
  [[nodiscard]] std::uint64_t records() const { return records_; }

  // True if a merge can go on at `from`, which was given to the constructor: the file has all its
  // positions, and no new record belongs before one that was passed.
  [[nodiscard]] bool continues(const MergeProgress& from) const;
  [[nodiscard]] MergeProgress progress() const;

 private:
  // The index of a writer in sources_.
  using Source = std::uint32_t;

  // A position in the order of all records. If two records have the same key, that of the smaller
  // source comes first.
  using Place = std::pair<std::uint64_t, Source>;

  static constexpr Place kNowhere{kNoMore, 0};

  struct WindowRecord {
    // the record's key less first_key_, the key of the window's first record
    std::uint32_t key_offset = 0;
    std::uint32_t writer = 0;
    trace::RecordHeader* record = nullptr;
  };

  [[nodiscard]] std::uint64_t key_of(const WindowRecord& element) const {
    return first_key_ + element.key_offset;
  }
  [[nodiscard]] Place next_place_of(Source source) const {
    return {sources_[source].keys().front(), source};
  }
  // The number of the source's records that can be in the next window, and the position of the last
  // of them.
  [[nodiscard]] std::size_t records_in_reach(Source source) const;
  [[nodiscard]] Place last_place_in_reach(Source source) const;

  // Reads more records of the source if needed; false if it has none. Lowers last_key_ to a call of
  // the source that has not returned.
  [[nodiscard]] bool refill(Source source);
  void make_window();
  // Wakes the sources that have records in the next window. Returns the window's end and sets
  // first_key_.
  [[nodiscard]] Place find_end();
  // True if so many records of one source come first that they become a window of their own, which
  // needs no sorting.
  [[nodiscard]] bool has_run(Place first, Place second) const;
  [[nodiscard]] static Place place_before(Place place);
  // Writes the source's records up to the window's end to `out`; returns the position after them.
  [[nodiscard]] WindowRecord* add_records_of(Source source, Place end, WindowRecord* out);
  // The end of those records in the window that are to be passed now.
  [[nodiscard]] const WindowRecord* end_of_run(std::uint64_t last_key,
                                               std::uint64_t max_records) const;
  static void fetch(const WindowRecord& element);

  // The distance of prefetches: far enough ahead for the latency of memory, near enough that the
  // records stay in the first-level cache.
  static constexpr std::size_t kFetchAhead = 8;

  std::vector<WriterRecords> sources_;  // the records of each writer, sorted by writer
  std::vector<Source> awake_;           // sources with records in the window, sorted
  // sources without records in the window, ordered by their next records
  std::priority_queue<Place, std::vector<Place>, std::greater<>> asleep_;
  std::vector<WindowRecord> window_;    // memory for a window and kFetchAhead records behind it
  const WindowRecord* next_ = nullptr;  // the next record in the window
  const WindowRecord* end_ = nullptr;   // the end of the window
  std::uint64_t first_key_ = 0;
  RadixSorter<WindowRecord, &WindowRecord::key_offset> sorter_;
  std::uint64_t last_key_ = kNoMore;  // key up to which records may be passed
  std::uint64_t passed_key_ = 0;      // key of the last record that was passed before this window
  std::uint32_t passed_writer_ = 0;
  TakenFrees taken_;
  trace::ReadLosses file_losses_;
  std::uint64_t records_ = 0;
};

inline void ProcessMerge::fetch(const WindowRecord& element) {
  constexpr std::size_t kCacheLineBytes = 64;
  // Computes with a number, not a pointer: the record may be freed, or the pointer null.
  const auto begin = reinterpret_cast<std::uintptr_t>(element.record);
  __builtin_prefetch(reinterpret_cast<const void*>(begin));
  __builtin_prefetch(reinterpret_cast<const void*>(begin + kCacheLineBytes));
}

template <class Sink>
void ProcessMerge::run_until(std::uint64_t last_key, std::uint64_t max_records, Sink& sink) {
  while (next_key() <= last_key && max_records > 0) {
    const WindowRecord* const stop = end_of_run(std::min(last_key, last_key_), max_records);
    const auto count = static_cast<std::uint64_t>(stop - next_);
    records_ += count;
    max_records -= count;
    while (next_ != stop) {
      const WindowRecord& present = *next_++;
      // Records behind the window's end are of former windows and may be freed: a prefetch of their
      // address reads no memory.
      fetch(next_[kFetchAhead - 1]);
      sink.apply(*present.record, present.writer, trace::ticks_of_key(key_of(present)));
    }
    if (next_ == end_) make_window();
  }
}

}  // namespace gpumemtrace::analyzer
