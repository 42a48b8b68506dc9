// SPDX-License-Identifier: Apache-2.0
// What one writer recorded, from the record that comes next on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "trace/image.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {

// A record and its place in the order (trace/order.hpp).
struct PlacedRecord {
  std::uint64_t key = 0;
  trace::RecordHeader* record = nullptr;
};

// - Keys never fall from a record to the next, whatever the times in them say.
// - Memory: one decoded piece, more only where look_ahead() goes beyond it.
class WriterRecords {
 public:
  WriterRecords(const trace::TraceFile& file, const trace::WriterStream& stream)
      : cursor_(file, stream), writer_(stream.writer) {}

  [[nodiscard]] std::uint32_t writer() const { return writer_; }

  // Goes on to the next piece where the present one is through, whose records are gone then. False
  // at the end of the stream.
  [[nodiscard]] bool refill();
  // The keys of the records that follow in the present piece.
  [[nodiscard]] std::span<const std::uint64_t> keys() const {
    return std::span(present_.keys).subspan(next_);
  }
  // The record that keys()[index] is about.
  [[nodiscard]] trace::RecordHeader* record(std::size_t index) {
    return present_.record(next_ + index);
  }
  // Goes on by so many records of the present piece, which stay in memory up to the next refill().
  void pass(std::size_t records) { next_ += records; }

  // The record at that distance from the next one, in whatever piece; without a record where the
  // stream ends before.
  [[nodiscard]] PlacedRecord look_ahead(std::size_t distance);
  // The first record in memory whose key is no smaller, passed ones included, or look_ahead(0).
  [[nodiscard]] PlacedRecord first_from(std::uint64_t key);

  // What went wrong so far. Frees the memory.
  [[nodiscard]] trace::ReadLosses finish();

 private:
  [[nodiscard]] bool read(trace::Image& piece);

  trace::Image present_;
  std::size_t next_ = 0;  // in it
  trace::WriterCursor cursor_;
  std::uint32_t writer_ = 0;
  std::uint64_t last_key_ = 0;      // of all that was read
  std::deque<trace::Image> later_;  // the pieces after the present one that are read already
};

}  // namespace gpumemtrace::analyzer
