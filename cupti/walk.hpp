// SPDX-License-Identifier: Apache-2.0
// The records of a completed buffer, one by one. CUPTI's own function finds the next; the length of
// a record follows from the begin of the next one, so that none of a newer version is cut.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti/functions.hpp"

namespace gpumemtrace::cupti {

struct RawRecord {
  const std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
};

class Walk {
 public:
  Walk(const Functions& functions, std::uint8_t* buffer, std::size_t valid_bytes) noexcept
      : next_record_(functions.cuptiActivityGetNextRecord),
        buffer_(buffer),
        valid_bytes_(valid_bytes) {
    advance();
  }

  // False at the end, and if the rest cannot be read.
  [[nodiscard]] bool next(RawRecord& record) noexcept {
    if (following_ == nullptr) return false;
    const std::uint8_t* const begin = following_;
    advance();
    const std::uint8_t* const end = following_ == nullptr ? buffer_ + valid_bytes_ : following_;
    record = {begin, static_cast<std::size_t>(end - begin)};
    return true;
  }

 private:
  // CUPTI writes the next record's address over the one before; the first is asked for by nullptr.
  void advance() noexcept {
    std::uint8_t* record = following_;
    const bool found = valid_bytes_ != 0 &&
                       next_record_(buffer_, valid_bytes_, &record) == kSuccess &&
                       record >= buffer_ && record < buffer_ + valid_bytes_ &&
                       (following_ == nullptr || record > following_);
    following_ = found ? record : nullptr;
  }

  Result (*next_record_)(std::uint8_t*, std::size_t, std::uint8_t**);
  std::uint8_t* buffer_;
  std::size_t valid_bytes_;
  std::uint8_t* following_ = nullptr;
};

}  // namespace gpumemtrace::cupti
