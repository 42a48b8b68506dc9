// SPDX-License-Identifier: Apache-2.0
// Copies of content that the same call site has sent to the same device before, by its hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumemtrace::analyzer {

// - If contents share a slot the last one counts, so some repeats may be missed.
// - Only recordings that hash the content of copies have any.
class RepeatedCopies {
 public:
  // True if the last copy in the content's slot had this row, size and content.
  [[nodiscard]] bool comes_again(std::uint32_t row, std::uint64_t bytes, std::uint64_t content) {
    if (slots_.empty()) slots_.resize(std::size_t{1} << kSlotBits);
    const std::uint64_t key = (content ^ (bytes + (std::uint64_t{row} << 40))) * kSpread;
    std::uint64_t& slot = slots_[static_cast<std::size_t>(key >> (64 - kSlotBits))];
    const bool again = slot == key;
    slot = key;
    return again;
  }

 private:
  static constexpr std::size_t kSlotBits = 14;
  static constexpr std::uint64_t kSpread = 0x9E37'79B9'7F4A'7C15u;

  std::vector<std::uint64_t> slots_;
};

}  // namespace gpumemtrace::analyzer
