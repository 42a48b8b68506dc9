// SPDX-License-Identifier: Apache-2.0
#include "analyzer/order/writer_records.hpp"

#include <algorithm>
#include <utility>

namespace gpumemtrace::analyzer {
namespace {

PlacedRecord placed(trace::Image& piece, std::size_t index) {
  return {piece.keys[index], piece.record(index)};
}

}  // namespace

bool WriterRecords::refill() {
  if (next_ != present_.keys.size()) return true;
  next_ = 0;
  if (later_.empty()) return read(present_);
  present_ = std::move(later_.front());
  later_.pop_front();
  return true;
}

bool WriterRecords::read(trace::Image& piece) {
  if (!cursor_.next_piece(piece)) return false;
  // Nothing to do but where times ran backwards from the piece before.
  for (std::uint64_t& key : piece.keys) {
    if (key >= last_key_) break;
    key = last_key_;
  }
  last_key_ = piece.keys.back();
  return true;
}

PlacedRecord WriterRecords::look_ahead(std::size_t distance) {
  std::size_t index = next_ + distance;
  if (index < present_.keys.size()) return placed(present_, index);
  index -= present_.keys.size();
  for (std::size_t i = 0;; ++i) {
    if (i == later_.size() && !read(later_.emplace_back())) {
      later_.pop_back();
      return {};
    }
    if (index < later_[i].keys.size()) return placed(later_[i], index);
    index -= later_[i].keys.size();
  }
}

PlacedRecord WriterRecords::first_from(std::uint64_t key) {
  const auto begin = present_.keys.begin();
  const auto next = begin + static_cast<std::ptrdiff_t>(next_);
  const auto found = std::lower_bound(begin, next, key);
  return found == next ? look_ahead(0) : placed(present_, static_cast<std::size_t>(found - begin));
}

trace::ReadLosses WriterRecords::finish() {
  present_ = {};
  return cursor_.losses();
}

}  // namespace gpumemtrace::analyzer
