// SPDX-License-Identifier: Apache-2.0
// Records that a compaction has not given up yet, in the order in which they came.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/ledger/mapped_array.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

using ledger::MappedArray;

// Number of a retained record; 0 = none.
using RecordId = std::uint32_t;

// - Dropped records leave holes, which are closed once they are half of the memory.
// - Pointers to records are valid until the next retain().
class RetainedRecords {
 public:
  // Returns 0 if there is no memory.
  [[nodiscard]] RecordId retain(const trace::RecordHeader& record) noexcept;
  void drop(RecordId id) noexcept;
  trace::RecordHeader& record(RecordId id) noexcept;

  // Calls visit(const RecordHeader&) for each retained record, in the order in which they came.
  template <class Visit>
  void for_each(Visit&& visit) const noexcept {
    for (std::size_t i = 0; i < words_.size(); i += 1 + length_of(words_[i])) {
      if (id_of(words_[i]) == 0) continue;
      visit(reinterpret_cast<const trace::RecordHeader&>(words_[i + 1]));
    }
  }

 private:
  //   one word  | the record
  //   id << 8 | its length in words         id 0: dropped
  static RecordId id_of(std::uint64_t word) noexcept { return static_cast<RecordId>(word >> 8); }
  static std::size_t length_of(std::uint64_t word) noexcept { return word & 0xff; }
  void close_holes() noexcept;

  MappedArray<std::uint64_t> words_;
  MappedArray<std::uint64_t> positions_;  // by id - 1: the index of the record's first word
  MappedArray<RecordId> unused_;          // ids that can be given again
  std::size_t dropped_words_ = 0;
};

}  // namespace gpumemtrace::preload
