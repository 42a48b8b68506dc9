// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/packing.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace gpumemtrace::analyzer::replay {
namespace {

// The lifetimes compared for each block, on average, after which the packing is given up. Up to
// some 6,000 blocks that all live at the same time, it is never given up.
constexpr std::uint64_t kMostComparisonsPerBlock = 2'000;
constexpr std::uint64_t kComparisonsOfFewBlocks = 20'000'000;

// The placed blocks in lists, one for each stretch of time, so that a new block is compared only
// with blocks that may live at the same time.
class Placed {
 public:
  Placed(std::uint64_t duration, std::size_t most_blocks)
      : index_bits_(std::bit_width(most_blocks)),
        stretch_(duration / kStretches + 1),
        begun_(kStretches),
        living_(kStretches) {}

  void add(const Lifetime& life, std::uint64_t offset) {
    const auto index = static_cast<std::uint32_t>(all_.size());
    all_.push_back({life, offset});
    begun_[first(life)].push_back(index);
    for (std::uint64_t at = first(life); at <= last(life); ++at) living_[at].push_back(index);
  }

  // The lowest offset at which the block has room among the blocks that live at the same time.
  [[nodiscard]] std::uint64_t lowest_gap(const Lifetime& life) {
    find_beside(life);
    std::uint64_t offset = 0;
    for (const std::uint64_t found : found_) {
      if (found >> index_bits_ >= offset + life.bytes) break;
      const Block& block = all_[found & ((std::uint64_t{1} << index_bits_) - 1)];
      offset = std::max(offset, block.offset + block.life.bytes);
    }
    return offset;
  }

  // The number of lifetimes that were compared so far.
  [[nodiscard]] std::uint64_t comparisons() const { return comparisons_; }

 private:
  static constexpr std::uint64_t kStretches = 1024;
  struct Block {
    Lifetime life;
    std::uint64_t offset = 0;
  };

  // Finds the placed blocks that live at the same time, ordered by offset, each once: those that
  // live when the block begins, and those that begin later.
  void find_beside(const Lifetime& life) {
    found_.clear();
    add_found(life, living_[first(life)]);
    for (std::uint64_t at = first(life) + 1; at <= last(life); ++at) add_found(life, begun_[at]);
    std::sort(found_.begin(), found_.end());
  }
  void add_found(const Lifetime& life, const std::vector<std::uint32_t>& indexes) {
    comparisons_ += indexes.size();
    for (const std::uint32_t index : indexes) {
      const Block& block = all_[index];
      if (block.life.begin < life.end && life.begin < block.life.end) {
        found_.push_back(block.offset << index_bits_ | index);
      }
    }
  }
  [[nodiscard]] std::uint64_t first(const Lifetime& life) const { return life.begin / stretch_; }
  [[nodiscard]] std::uint64_t last(const Lifetime& life) const { return (life.end - 1) / stretch_; }

  std::size_t index_bits_;
  std::uint64_t stretch_;
  std::vector<std::vector<std::uint32_t>> begun_;   // blocks that begin in a stretch, by stretch
  std::vector<std::vector<std::uint32_t>> living_;  // blocks that live in a stretch, by stretch
  std::vector<Block> all_;
  std::vector<std::uint64_t> found_;  // offsets of blocks, with the block's index in the lower bits
  std::uint64_t comparisons_ = 0;
};

}  // namespace

std::optional<std::uint64_t> packed_height(std::vector<Lifetime> blocks) {
  std::erase_if(blocks, [](const Lifetime& life) { return life.end <= life.begin; });
  std::stable_sort(blocks.begin(), blocks.end(), [](const Lifetime& a, const Lifetime& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.begin < b.begin;
  });
  std::uint64_t duration = 0;
  for (const Lifetime& life : blocks) duration = std::max(duration, life.end);
  Placed placed(duration, blocks.size());
  const std::uint64_t most_comparisons =
      std::max<std::uint64_t>(kComparisonsOfFewBlocks, kMostComparisonsPerBlock * blocks.size());
  std::uint64_t height = 0;
  for (const Lifetime& life : blocks) {
    const std::uint64_t offset = placed.lowest_gap(life);
    placed.add(life, offset);
    height = std::max(height, offset + life.bytes);
    if (placed.comparisons() > most_comparisons) return std::nullopt;
  }
  return height;
}

void Lifetimes::apply(const std::vector<Event>& events) {
  for (const Event& event : events) {
    ++now_;
    if (event.kind == EventKind::kRequest || event.kind == EventKind::kRefused) {
      largest_request_ = std::max(largest_request_, event.high_bytes);
    }
    if (event.kind == EventKind::kRequest) {
      if (event.slot >= live_.size()) live_.resize(event.slot + 1);
      live_[event.slot] = {now_, event.high_bytes, event.low_bytes};
      high_bytes_ += event.high_bytes;
      low_bytes_ += event.low_bytes;
      live_peak_ = std::max(live_peak_, high_bytes_);
      live_peak_low_ = std::max(live_peak_low_, low_bytes_);
      ++requests_;
    } else if (event.kind == EventKind::kFree || event.kind == EventKind::kWaitIsOver) {
      Live& live = live_[event.slot];
      high_bytes_ -= live.high_bytes;
      low_bytes_ -= live.low_bytes;
      if (requests_ <= kMostBlocks) blocks_.push_back({live.high_bytes, live.begin, now_});
      live = {};
    }
  }
  if (requests_ > kMostBlocks) blocks_ = {};
}

std::optional<std::uint64_t> Lifetimes::packed_bytes() const {
  if (requests_ > kMostBlocks) return std::nullopt;
  std::vector<Lifetime> blocks = blocks_;
  for (const Live& live : live_) {
    if (live.high_bytes != 0) blocks.push_back({live.high_bytes, live.begin, now_ + 1});
  }
  return packed_height(std::move(blocks));
}

}  // namespace gpumemtrace::analyzer::replay
