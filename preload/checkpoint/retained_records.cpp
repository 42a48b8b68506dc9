// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/retained_records.hpp"

#include <string.h>

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kFewWords = 1 << 16;  // holes with fewer words in all are not worth closing

}  // namespace

RecordId RetainedRecords::retain(const trace::RecordHeader& record) noexcept {
  if (dropped_words_ > kFewWords && dropped_words_ * 2 > words_.size()) close_holes();
  const std::size_t position = words_.size();
  if (!words_.resize(position + 1 + record.words)) return 0;
  RecordId id = 0;
  if (unused_.empty()) {
    if (!positions_.push(position)) return 0;
    id = static_cast<RecordId>(positions_.size());
  } else {
    id = unused_.back();
    unused_.erase(unused_.size() - 1, unused_.size());
    positions_[id - 1] = position;
  }
  words_[position] = std::uint64_t{id} << 8 | record.words;
  memcpy(&words_[position + 1], &record, record.words * trace::kWordBytes);
  return id;
}

void RetainedRecords::drop(RecordId id) noexcept {
  std::uint64_t& word = words_[positions_[id - 1]];
  word = length_of(word);
  dropped_words_ += 1 + length_of(word);
  // If there is no memory for the list, the id is not reused, which does no harm.
  [[maybe_unused]] const bool listed = unused_.push(id);
}

trace::RecordHeader& RetainedRecords::record(RecordId id) noexcept {
  return reinterpret_cast<trace::RecordHeader&>(words_[positions_[id - 1] + 1]);
}

void RetainedRecords::close_holes() noexcept {
  std::size_t end = 0;
  for (std::size_t i = 0; i < words_.size();) {
    const std::size_t length = 1 + length_of(words_[i]);
    if (const RecordId id = id_of(words_[i]); id != 0) {
      memmove(&words_[end], &words_[i], length * trace::kWordBytes);
      positions_[id - 1] = end;
      end += length;
    }
    i += length;
  }
  words_.erase(end, words_.size());
  dropped_words_ = 0;
}

}  // namespace gpumemtrace::preload
