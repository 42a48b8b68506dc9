// SPDX-License-Identifier: Apache-2.0
#include "analyzer/order/writer_records.hpp"

#include <algorithm>
#include <utility>

#include "trace/order.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::analyzer {
namespace {

PlacedRecord placed(trace::Image& piece, std::size_t index) {
  return {piece.keys[index], piece.record(index)};
}

}  // namespace

trace::ReadLosses operator+(trace::ReadLosses sum, const trace::ReadLosses& more) {
  sum.corrupt_blocks += more.corrupt_blocks;
  sum.truncated_tail += more.truncated_tail;
  sum.missing_chunks += more.missing_chunks;
  sum.malformed_records += more.malformed_records;
  sum.unknown_records += more.unknown_records;
  return sum;
}

bool is_free_of(const trace::RecordHeader& record, std::uint64_t address) {
  return record.kind == trace::RecordKind::kFree &&
         trace::as<trace::Free>(record).address == address && record.result == 0 &&
         trace::as<trace::Free>(record).call.end != 0 && (record.flags & trace::kFlagCaptured) == 0;
}

WriterRecords::WriterRecords(const trace::TraceFile& file, const trace::WriterStream& stream,
                             Extent extent, const WriterProgress& from, const TakenFrees& taken)
    : cursor_(from.has_begun ? trace::WriterCursor(file, stream, from.position)
                             : trace::WriterCursor(file, stream)),
      writer_(stream.writer),
      extent_(extent),
      last_key_(from.last_key),
      before_(from.losses),
      passed_(from),
      taken_(taken.empty() ? nullptr : &taken) {}

bool WriterRecords::refill() {
  if (next_ != present_.image.keys.size()) return true;
  passed_ = progress();
  if (!later_.empty()) {
    present_ = std::move(later_.front());
    later_.pop_front();
    next_ = 0;
    return true;
  }
  if (read(present_, next_)) return true;
  present_ = {};
  next_ = 0;
  return false;
}

// `first`: the first record that is not taken yet.
bool WriterRecords::read(Piece& piece, std::size_t& first) {
  if (has_ended_ || !cursor_.next_piece(piece.image)) return false;
  piece.begin = {cursor_.piece().sequence, cursor_.piece().begin_offset, 0};
  piece.losses = before_ + cursor_.losses_before_piece();
  first = cursor_.passed();
  if (extent_ == Extent::kReturned && cursor_.piece().in_ring) leave_out_open_calls(piece.image);
  if (first >= piece.image.keys.size()) return false;
  // Needed only if times ran backwards from the piece before.
  for (std::uint64_t& key : piece.image.keys) {
    if (key >= last_key_) break;
    key = last_key_;
  }
  last_key_ = piece.image.keys.back();
  if (taken_ != nullptr) leave_out_taken(piece.image);
  return true;
}

// A thread makes one call at a time: one before another call was left, by a jump, and never
// returns.
void WriterRecords::leave_out_open_calls(trace::Image& image) {
  std::size_t end = image.offsets.size();
  for (std::size_t i = end; i-- > 0;) {
    const trace::RecordHeader& record = *image.record(i);
    if (!trace::is_call(record.kind)) continue;
    const bool is_open = trace::as<trace::OtherCall>(record).call.end == 0;
    if (is_open && cursor_.is_last_piece()) end = i;
    break;
  }
  if (end == image.offsets.size()) return;
  has_ended_ = true;
  // A call that allocates takes effect when it returns, so after all records that are there now.
  if (!trace::takes_effect_at_end(*image.record(end))) hold_ = std::max(image.keys[end], last_key_);
  image.resize_records(end);
}

void WriterRecords::leave_out_taken(trace::Image& image) const {
  for (const auto& [key, address] : *taken_) {
    const auto found = std::lower_bound(image.keys.begin(), image.keys.end(), key);
    for (auto at = found; at != image.keys.end() && *at == key; ++at) {
      trace::RecordHeader& record =
          *image.record(static_cast<std::size_t>(at - image.keys.begin()));
      if (is_free_of(record, address)) record.kind = trace::RecordKind::kNone;
    }
  }
}

WriterProgress WriterRecords::progress(std::size_t returned) const {
  const std::size_t passed = next_ - returned;
  if (passed == 0) return passed_;
  WriterProgress progress;
  progress.has_begun = true;
  progress.position = present_.begin;
  progress.position.records = passed;
  progress.last_key = present_.image.keys[passed - 1];
  progress.losses = present_.losses;
  return progress;
}

PlacedRecord WriterRecords::look_ahead(std::size_t distance) {
  std::size_t index = next_ + distance;
  if (index < present_.image.keys.size()) return placed(present_.image, index);
  index -= present_.image.keys.size();
  for (std::size_t i = 0;; ++i) {
    std::size_t first = 0;
    if (i == later_.size() && !read(later_.emplace_back(), first)) {
      later_.pop_back();
      return {};
    }
    if (index < later_[i].image.keys.size()) return placed(later_[i].image, index);
    index -= later_[i].image.keys.size();
  }
}

PlacedRecord WriterRecords::first_from(std::uint64_t key) {
  const auto begin = present_.image.keys.begin();
  const auto next = begin + static_cast<std::ptrdiff_t>(next_);
  const auto found = std::lower_bound(begin, next, key);
  return found == next ? look_ahead(0)
                       : placed(present_.image, static_cast<std::size_t>(found - begin));
}

trace::ReadLosses WriterRecords::losses() const { return before_ + cursor_.losses(); }

}  // namespace gpumemtrace::analyzer
