// SPDX-License-Identifier: Apache-2.0
// Free blocks of one stream and pool in the order in which the allocator searches them: by size,
// then by address.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumemtrace::analyzer::replay {

// A block of one CachingAllocator; 0 = none.
using BlockId = std::uint32_t;

// Blocks of similar size, four ranges to a power of two, stand together, so that few are compared
// and few move.
class FreeBlocks {
 public:
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint64_t address = 0;  // of one block only
    BlockId block = 0;
  };
  // The position of an entry, valid until the next change.
  struct Place {
    std::size_t range = kRanges;
    std::size_t index = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };

  void insert(const Entry& entry) {
    const Place place = find(entry);
    std::vector<Entry>& range = ranges_[place.range];
    // Few elements move, mostly none: a loop is cheaper than a call.
    range.push_back(entry);
    for (std::size_t i = range.size() - 1; i > place.index; --i) range[i] = range[i - 1];
    range[place.index] = entry;
    mark(place.range);
  }
  void erase(const Entry& entry) { erase_at(find(entry)); }
  void erase_at(Place place) {
    std::vector<Entry>& range = ranges_[place.range];
    for (std::size_t i = place.index + 1; i < range.size(); ++i) range[i - 1] = range[i];
    range.pop_back();
    mark(place.range);
  }
  // Takes one out and puts another in.
  void replace(const Entry& old, const Entry& entry) { replace_at(find(old), entry); }
  void replace_at(Place place, const Entry& entry) {
    erase_at(place);
    insert(entry);
  }
  // The first that has at least so many bytes; end() if none has.
  [[nodiscard]] Place first_of_at_least(std::uint64_t bytes) const {
    return settled(find({bytes, 0, 0}));
  }
  [[nodiscard]] Place end() const { return {}; }
  [[nodiscard]] Place after(Place place) const { return settled({place.range, place.index + 1}); }
  [[nodiscard]] const Entry& operator[](Place place) const {
    return ranges_[place.range][place.index];
  }
  // The largest that is smaller than so many bytes; nullptr if none is.
  [[nodiscard]] const Entry* last_below(std::uint64_t bytes) const {
    const Place place = find({bytes, 0, 0});
    if (place.index != 0) return &ranges_[place.range][place.index - 1];
    for (std::size_t range = place.range; range-- > 0;) {
      if (!ranges_[range].empty()) return &ranges_[range].back();
    }
    return nullptr;
  }
  [[nodiscard]] std::vector<Entry> entries() const {
    std::vector<Entry> all;
    for (const std::vector<Entry>& range : ranges_)
      all.insert(all.end(), range.begin(), range.end());
    return all;
  }

 private:
  static constexpr std::size_t kBitsOfRange = 2;
  static constexpr std::size_t kRanges = 64U << kBitsOfRange;
  static constexpr std::size_t kBitsOfWord = 64;

  // Grows with the size: the power of two, then the two bits below its highest.
  [[nodiscard]] static std::size_t range_of(std::uint64_t bytes) {
    if (bytes < (1U << kBitsOfRange)) return 0;
    const auto power = static_cast<std::size_t>(std::bit_width(bytes)) - 1;
    const std::uint64_t below = bytes >> (power - kBitsOfRange);
    return (power << kBitsOfRange) + static_cast<std::size_t>(below & ((1U << kBitsOfRange) - 1));
  }
  [[nodiscard]] static bool is_before(const Entry& a, const Entry& b) {
    // Without a branch: its direction could not be predicted.
    return (a.bytes < b.bytes) | ((a.bytes == b.bytes) & (a.address < b.address));
  }
  [[nodiscard]] Place find(const Entry& entry) const {
    const std::size_t at = range_of(entry.bytes);
    const std::vector<Entry>& range = ranges_[at];
    std::size_t first = 0;
    for (std::size_t count = range.size(); count > 0;) {
      const std::size_t half = (count + 1) / 2;
      first += is_before(range[first + half - 1], entry) ? half : 0;
      count -= half;
    }
    return {at, first};
  }
  // The position itself, or behind the end of its range the first of the next range that has any.
  [[nodiscard]] Place settled(Place place) const {
    if (place.index < ranges_[place.range].size()) return place;
    const std::size_t next = place.range + 1;
    for (std::size_t word = next / kBitsOfWord; word < used_.size(); ++word) {
      std::uint64_t used = used_[word];
      if (word == next / kBitsOfWord) used &= ~std::uint64_t{0} << next % kBitsOfWord;
      if (used == 0) continue;
      return {word * kBitsOfWord + static_cast<std::size_t>(std::countr_zero(used)), 0};
    }
    return end();
  }
  void mark(std::size_t range) {
    const std::uint64_t bit = std::uint64_t{1} << range % kBitsOfWord;
    std::uint64_t& word = used_[range / kBitsOfWord];
    word = ranges_[range].empty() ? word & ~bit : word | bit;
  }

  std::vector<std::vector<Entry>> ranges_ = std::vector<std::vector<Entry>>(kRanges);  // sorted
  std::array<std::uint64_t, kRanges / kBitsOfWord> used_{};  // bits of ranges that have entries
};

}  // namespace gpumemtrace::analyzer::replay
