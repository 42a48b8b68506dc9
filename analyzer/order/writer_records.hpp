// SPDX-License-Identifier: Apache-2.0
// The records of one writer, from the next one on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <span>

#include "trace/image.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {

// A record and its position in the order (trace/order.hpp).
struct PlacedRecord {
  std::uint64_t key = 0;
  trace::RecordHeader* record = nullptr;
};

[[nodiscard]] trace::ReadLosses operator+(trace::ReadLosses sum, const trace::ReadLosses& more);
// A free of the address that took effect.
[[nodiscard]] bool is_free_of(const trace::RecordHeader& record, std::uint64_t address);

// The progress in one writer's records: enough to go on in a later opening of the same file.
struct WriterProgress {
  trace::StreamPosition position;
  bool has_begun = false;
  std::uint64_t last_key = 0;  // of the last taken record
  trace::ReadLosses losses;    // of the pieces before the position's
};

// Frees that take_free() took out of the order ahead of their position: address by key.
using TakenFrees = std::multimap<std::uint64_t, std::uint64_t>;

// The records of a writer that may be taken.
enum class Extent : std::uint8_t {
  kAll,
  // Records up to the first call that has not returned but may: its outcome is not known. Calls in
  // the packed file will not return, and neither will a call before another one.
  kReturned,
};

// - Keys never fall from a record to the next, whatever their times.
// - Memory: one decoded piece, more only if look_ahead() goes beyond it.
class WriterRecords {
 public:
  // Continues behind the taken records. `taken` are frees among the rest that have taken effect;
  // borrowed until the last record is read.
  WriterRecords(const trace::TraceFile& file, const trace::WriterStream& stream, Extent extent,
                const WriterProgress& from, const TakenFrees& taken);

  [[nodiscard]] std::uint32_t writer() const { return writer_; }
  // False if the file does not have the position from which the records were to go on.
  [[nodiscard]] bool found() const { return cursor_.found(); }

  // Moves on to the next piece if the present one is through, whose records are gone then. False at
  // the end of the stream.
  [[nodiscard]] bool refill();
  // The keys of the next records in the present piece.
  [[nodiscard]] std::span<const std::uint64_t> keys() const {
    return std::span(present_.image.keys).subspan(next_);
  }
  // The record that belongs to keys()[index].
  [[nodiscard]] trace::RecordHeader* record(std::size_t index) {
    return present_.image.record(next_ + index);
  }
  // Passes so many records of the present piece, which stay in memory up to the next refill().
  void pass(std::size_t records) { next_ += records; }

  // The record at that distance from the next one, in any piece; without a record if the stream
  // ends before.
  [[nodiscard]] PlacedRecord look_ahead(std::size_t distance);
  // The first record in memory whose key is no smaller, passed ones included, or look_ahead(0).
  [[nodiscard]] PlacedRecord first_from(std::uint64_t key);

  static constexpr std::uint64_t kNoHold = std::numeric_limits<std::uint64_t>::max();
  // The position of a call that has not returned (Extent::kReturned), or kNoHold. It is known once
  // all records before it were read.
  [[nodiscard]] std::uint64_t hold() const { return hold_; }
  // Losses so far.
  [[nodiscard]] trace::ReadLosses losses() const;
  // The progress without the last `returned` records, which were passed in the present piece.
  [[nodiscard]] WriterProgress progress(std::size_t returned = 0) const;

 private:
  struct Piece {
    trace::Image image;
    trace::StreamPosition begin;
    trace::ReadLosses losses;  // of the pieces before it
  };
  [[nodiscard]] bool read(Piece& piece, std::size_t& first);
  void leave_out_open_calls(trace::Image& image);
  void leave_out_taken(trace::Image& image) const;

  Piece present_;
  std::size_t next_ = 0;  // in it
  trace::WriterCursor cursor_;
  std::uint32_t writer_ = 0;
  Extent extent_ = Extent::kAll;
  bool has_ended_ = false;  // before a call that has not returned
  std::uint64_t hold_ = kNoHold;
  std::uint64_t last_key_ = 0;  // of all that was read
  trace::ReadLosses before_;    // of the pieces before the cursor's first
  WriterProgress passed_;       // up to the present piece
  const TakenFrees* taken_ = nullptr;
  std::deque<Piece> later_;  // the pieces after the present one that are read already
};

}  // namespace gpumemtrace::analyzer
