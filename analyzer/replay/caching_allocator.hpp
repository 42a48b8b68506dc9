// SPDX-License-Identifier: Apache-2.0
// PyTorch's native caching allocator of one device, as a simulation without memory: it computes the
// block that a request gets, the requests to the driver, and the memory returned to the driver.
//
// Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.4 to 2.11.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analyzer/replay/allocator_settings.hpp"

namespace gpumemtrace::analyzer::replay {

// The number of a block of one CachingAllocator; 0 = none.
using BlockId = std::uint32_t;

// Free blocks of one stream and pool in the order in which the allocator searches them: by size,
// then by address.
//
// Blocks of similar size, four ranges to a power of two, are kept in one vector, so that a change
// compares and moves few entries.
class FreeBlocks {
 public:
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint64_t address = 0;  // only one block has this address
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
    // Few elements move, mostly none: a loop is cheaper than a call of memmove().
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
  // Takes one entry out and puts another in.
  void replace(const Entry& old, const Entry& entry) { replace_at(find(old), entry); }
  void replace_at(Place place, const Entry& entry) {
    erase_at(place);
    insert(entry);
  }
  // The first block that has at least `bytes`; end() if none has.
  [[nodiscard]] Place first_of_at_least(std::uint64_t bytes) const {
    return settled(find({bytes, 0, 0}));
  }
  [[nodiscard]] Place end() const { return {}; }
  [[nodiscard]] Place after(Place place) const { return settled({place.range, place.index + 1}); }
  [[nodiscard]] const Entry& operator[](Place place) const {
    return ranges_[place.range][place.index];
  }
  // The largest block that is smaller than `bytes`; nullptr if none is.
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

  // The index of a size's range, which grows with the size: the position of the highest bit of
  // `bytes`, followed by the two bits below that bit.
  [[nodiscard]] static std::size_t range_of(std::uint64_t bytes) {
    if (bytes < (1U << kBitsOfRange)) return 0;
    const auto power = static_cast<std::size_t>(std::bit_width(bytes)) - 1;
    const std::uint64_t below = bytes >> (power - kBitsOfRange);
    return (power << kBitsOfRange) + static_cast<std::size_t>(below & ((1U << kBitsOfRange) - 1));
  }
  [[nodiscard]] static bool is_before(const Entry& a, const Entry& b) {
    // Compares without a branch, since its direction could not be predicted.
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
  // `place` itself if it has an entry; at the end of its range, the first entry of the next range
  // that is not empty, or end().
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

  // The entries of each range, sorted.
  std::vector<std::vector<Entry>> ranges_ = std::vector<std::vector<Entry>>(kRanges);
  // One bit for each range that has entries.
  std::array<std::uint64_t, kRanges / kBitsOfWord> used_{};
};

// The number of a class of blocks: a stream of the program, or a private pool. A request gets only
// blocks of its class.
using ClassId = std::uint32_t;

// The driver of a CachingAllocator.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  // The address of new memory; no value if the driver has none.
  [[nodiscard]] virtual std::optional<std::uint64_t> allocate(std::uint64_t bytes,
                                                              ClassId block_class) = 0;
  virtual void release(std::uint64_t address, std::uint64_t bytes) = 0;
  // The address space that the driver reserves for an expandable segment.
  struct Space {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] virtual Space reserve(std::uint64_t page_bytes, ClassId block_class) = 0;
  [[nodiscard]] virtual bool map(std::uint64_t address, std::uint64_t bytes) = 0;
  virtual void unmap(std::uint64_t address, std::uint64_t bytes) = 0;
};

// The counters of PyTorch's memory_stats(), and facts about the requests.
struct AllocatorCounts {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t reserved_peak_bytes = 0;
  std::uint64_t allocated_bytes = 0;  // the sum of the sizes of blocks in use
  std::uint64_t allocated_peak_bytes = 0;
  std::uint64_t retries = 0;
  std::uint64_t segments = 0;
  std::uint64_t segments_peak = 0;
  // The largest sum of reserved bytes and a request that the driver met: PyTorch's own limit makes
  // no difference if it is not below this.
  std::uint64_t asked_peak_bytes = 0;
  std::uint64_t segment_calls = 0;  // the driver's calls: allocate, free, map, unmap
  // True once a request came that several blocks would have met, in different segments, of one size
  // and with different neighbours: the choice depends on addresses that only the driver knows.
  bool has_ties = false;
};

// The simulated allocator.
// - Call malloc() and free() in the order of the program's calls, from one thread.
// - Its own memory grows with the blocks and pieces that exist, not with the calls.
class CachingAllocator {
 public:
  CachingAllocator(const AllocatorSettings& settings, const TorchRules& rules,
                   SegmentSource& source);
  // Sets the driver that a copied allocator uses; until then it shares the original's driver.
  void set_source(SegmentSource& source) { source_ = &source; }

  // Sets the bytes that memory_fraction allows; without this call, all that the driver has.
  void set_allowed_bytes(std::uint64_t bytes) { allowed_bytes_ = bytes; }
  // The new settings hold from the next request on.
  void change_settings(const AllocatorSettings& settings) { settings_ = settings; }
  // Lets the class, which is the pool of a graph, keep its cache when the cache is emptied.
  void keep_cache_of(ClassId block_class) { class_of(block_class).keeps_cache = true; }

  // Returns 0 if the request is refused: out of memory. Returns kTied, with no block changed, if
  // stop_at_first_tie() was called and the block depends on addresses that are not known.
  [[nodiscard]] BlockId malloc(std::uint64_t requested_bytes, ClassId block_class);
  void free(BlockId block);
  // The block counts as free, but becomes available only by finish_free() with this ticket, or by
  // empty_cache(), in which PyTorch waits for the streams that use the block.
  void free_later(BlockId block, std::uint32_t ticket);
  void finish_free(std::uint32_t ticket);
  [[nodiscard]] bool has_waiting() const { return !waiting_.empty(); }
  void empty_cache();
  // After stop_at_first_tie(), the first request that would set counts().has_ties gets no block
  // (kTied); asked again, it gets one.
  static constexpr BlockId kTied = ~BlockId{0};
  void stop_at_first_tie() { stops_at_tie_ = true; }
  // Moves each segment from its old address to its new one. No segment may be expandable.
  void move_segments(const std::map<std::uint64_t, std::uint64_t>& moves);

  [[nodiscard]] std::uint64_t address_of(BlockId block) const { return blocks_[block].address; }
  [[nodiscard]] std::uint64_t bytes_of(BlockId block) const { return blocks_[block].bytes; }
  [[nodiscard]] const AllocatorSettings& settings() const { return settings_; }
  [[nodiscard]] const AllocatorCounts& counts() const { return counts_; }

  // --- Functions that build the state before the first request: free memory is adopted first.
  // Adopts a segment; returns its free block.
  BlockId adopt_segment(std::uint64_t address, std::uint64_t bytes, ClassId block_class,
                        bool small);
  // Adopts an expandable segment; returns its unmapped block.
  BlockId adopt_space(std::uint64_t address, std::uint64_t bytes, ClassId block_class, bool small);
  // A piece of a block that is not in use, and the rest of the block on both sides; 0 = no rest.
  struct Parts {
    BlockId before = 0;
    BlockId piece = 0;
    BlockId behind = 0;
  };
  // adopt_pages() counts a piece of an unmapped block as mapped, and joins it with a free block in
  // front. adopt_block() puts a piece of a free block in use. Parts::piece is 0, with nothing
  // changed, unless the piece lies inside the block.
  [[nodiscard]] Parts adopt_pages(BlockId unmapped, std::uint64_t address, std::uint64_t bytes);
  [[nodiscard]] Parts adopt_block(BlockId free, std::uint64_t address, std::uint64_t bytes);

  // The block that a request would get now; 0 if the driver would be asked.
  [[nodiscard]] BlockId find_fit(std::uint64_t requested_bytes, ClassId block_class) const;
  // The size of the block that a request would get now.
  [[nodiscard]] std::uint64_t block_bytes_for(std::uint64_t requested_bytes,
                                              ClassId block_class) const;
  // True if a request would free segments to keep to PyTorch's own limit, not for lack of memory.
  [[nodiscard]] bool gives_back_for(std::uint64_t requested_bytes, ClassId block_class) const;
  // The size of the largest free block of the request's pool that is smaller than `bytes`; 0 if
  // none is.
  [[nodiscard]] std::uint64_t free_size_below(std::uint64_t bytes, ClassId block_class) const;
  // Moves all blocks of a segment to another class. `any_block` lies in the segment.
  void move_segment(BlockId any_block, ClassId to);
  [[nodiscard]] ClassId class_of_block(BlockId block) const { return blocks_[block].block_class; }
  // A segment, not an expandable one, without a block in use. The list is in the order in which the
  // cache is emptied.
  struct FreeSegment {
    std::uint64_t address = 0;
    BlockId block = 0;
    ClassId block_class = 0;
    bool stays = false;  // true if keep_cache_of() was called for its class
  };
  [[nodiscard]] std::vector<FreeSegment> free_segments() const;
  void release_free_segment(BlockId block);
  // The free block of at least these bytes that begins at the address; 0 if none does.
  [[nodiscard]] BlockId free_block_at(std::uint64_t address, std::uint64_t least_bytes) const;

 private:
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t freed_at = 0;  // the value of searches_ when it became free
    std::uint64_t segment = 0;   // address of the segment's first block
    BlockId previous = 0;        // neighbours in the segment, by address
    BlockId next = 0;
    ClassId block_class = 0;
    bool small = false;
    bool in_use = false;
    bool mapped = true;
    bool expandable = false;

    [[nodiscard]] bool is_whole_segment() const { return previous == 0 && next == 0; }
  };
  struct Pool {
    FreeBlocks free;
    FreeBlocks unmapped;  // entries have size 0, so that addresses alone give the order
  };
  struct Class {
    Pool small;
    Pool large;
    bool keeps_cache = false;
    [[nodiscard]] Pool& pool(bool is_small) { return is_small ? small : large; }
    [[nodiscard]] const Pool& pool(bool is_small) const { return is_small ? small : large; }
  };
  struct Request {
    std::uint64_t bytes = 0;  // the rounded size
    ClassId block_class = 0;
    bool small = false;
  };

  // The class of this number; makes the class if it does not exist.
  [[nodiscard]] Class& class_of(ClassId block_class) {
    if (block_class >= classes_.size()) [[unlikely]] {
      classes_.resize(block_class + 1);
    }
    return classes_[block_class];
  }
  // The list that has the block, which is not in use.
  [[nodiscard]] FreeBlocks& list_of(const Block& block) {
    Pool& pool = classes_[block.block_class].pool(block.small);
    return block.mapped ? pool.free : pool.unmapped;
  }
  [[nodiscard]] Request request_of(std::uint64_t requested_bytes, ClassId block_class) const;
  [[nodiscard]] BlockId new_id();
  [[nodiscard]] BlockId new_block(const Request& request, std::uint64_t address,
                                  std::uint64_t bytes);
  void delete_block(BlockId block);
  [[nodiscard]] FreeBlocks::Entry entry_of(BlockId block) const;
  [[nodiscard]] FreeBlocks::Entry entry_of_freed(BlockId block);
  void insert(BlockId block);
  void erase(BlockId block);

  // The position of the best free block for the request, or the list's end.
  [[nodiscard]] FreeBlocks::Place best_fit(const FreeBlocks& free, const Request& request) const;
  [[nodiscard]] FreeBlocks::Place least_expanded_fit(const FreeBlocks& free,
                                                     FreeBlocks::Place at) const;
  // True if blocks that fit as well as this one lie in other segments.
  [[nodiscard]] bool is_tied(const FreeBlocks& free, FreeBlocks::Place at) const;
  [[nodiscard]] BlockId take_from_cache(const Request& request);
  [[nodiscard]] BlockId ask_driver(const Request& request);
  [[nodiscard]] BlockId new_segment(const Request& request, std::uint64_t bytes);
  void mark_in_use(BlockId block);
  [[nodiscard]] bool should_split(const Block& block, std::uint64_t bytes) const;
  void make_available(BlockId block);
  [[nodiscard]] BlockId split(BlockId block, std::uint64_t bytes);
  // Cuts a piece out of a block that is not in use. The piece is then in no list.
  [[nodiscard]] Parts carve(BlockId block, std::uint64_t address, std::uint64_t bytes);
  [[nodiscard]] bool can_join(BlockId block, BlockId neighbour) const;
  void join(BlockId block, BlockId neighbour);
  void absorb(BlockId block, BlockId neighbour);

  void grow_reserved(std::uint64_t bytes);
  // True if garbage is collected: the threshold has no effect unless there is a limit, too.
  [[nodiscard]] bool collects_garbage() const {
    return settings_.garbage_collection_threshold > 0 &&
           allowed_bytes_ != AllocatorSettings::kNoLimit;
  }
  [[nodiscard]] std::uint64_t garbage_threshold_bytes() const {
    return static_cast<std::uint64_t>(settings_.garbage_collection_threshold *
                                      static_cast<double>(allowed_bytes_));
  }
  void collect_garbage();
  [[nodiscard]] bool release_oversize(const Request& request);
  void release_cache_of(bool small);

  // --- Allocation and release in expandable segments.
  [[nodiscard]] BlockId take_expandable(const Request& request);
  [[nodiscard]] BlockId find_room(const Request& request);
  [[nodiscard]] bool map(BlockId block, std::uint64_t bytes);
  void unmap(BlockId block);
  [[nodiscard]] std::uint64_t size_when_expanded(BlockId block) const;
  [[nodiscard]] bool is_available(BlockId block) const {
    return block != 0 && !blocks_[block].in_use;
  }

  AllocatorSettings settings_;
  TorchRules rules_;
  SegmentSource* source_;
  std::uint64_t allowed_bytes_ = AllocatorSettings::kNoLimit;
  std::vector<Block> blocks_{1};
  std::vector<BlockId> unused_;
  std::vector<Class> classes_;
  std::map<std::uint32_t, BlockId> waiting_;  // blocks of free_later(), by ticket
  std::uint64_t searches_ = 0;                // requests for large blocks: the clock of freed_at
  AllocatorCounts counts_;
  bool stops_at_tie_ = false;
};

}  // namespace gpumemtrace::analyzer::replay
