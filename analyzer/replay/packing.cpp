// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/packing.hpp"

#include <algorithm>
#include <utility>

namespace gpumemtrace::analyzer::replay {
namespace {

// Placed blocks by stretches of time, so that a block meets those of its own life only.
class Placed {
 public:
  explicit Placed(std::uint64_t duration)
      : stretch_(duration / kStretches + 1), stretches_(kStretches) {}

  void add(const Lifetime& life, std::uint64_t offset) {
    const auto index = static_cast<std::uint32_t>(all_.size());
    all_.push_back({life, offset, 0});
    for (std::uint64_t at = first(life); at <= last(life); ++at) stretches_[at].push_back(index);
  }

  // Offset and end of those that live at the same time, by offset.
  [[nodiscard]] const std::vector<std::pair<std::uint64_t, std::uint64_t>>& beside(
      const Lifetime& life) {
    found_.clear();
    ++search_;
    for (std::uint64_t at = first(life); at <= last(life); ++at) {
      for (const std::uint32_t index : stretches_[at]) {
        Block& block = all_[index];
        if (block.seen == search_) continue;
        block.seen = search_;
        if (block.life.begin < life.end && life.begin < block.life.end) {
          found_.emplace_back(block.offset, block.offset + block.life.bytes);
        }
      }
    }
    std::sort(found_.begin(), found_.end());
    return found_;
  }

 private:
  static constexpr std::uint64_t kStretches = 1024;
  struct Block {
    Lifetime life;
    std::uint64_t offset = 0;
    std::uint64_t seen = 0;  // the last search that met it
  };
  [[nodiscard]] std::uint64_t first(const Lifetime& life) const { return life.begin / stretch_; }
  [[nodiscard]] std::uint64_t last(const Lifetime& life) const { return (life.end - 1) / stretch_; }

  std::uint64_t stretch_;
  std::vector<std::vector<std::uint32_t>> stretches_;
  std::vector<Block> all_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found_;
  std::uint64_t search_ = 0;
};

}  // namespace

std::uint64_t packed_height(std::vector<Lifetime> blocks) {
  std::erase_if(blocks, [](const Lifetime& life) { return life.end <= life.begin; });
  std::stable_sort(blocks.begin(), blocks.end(), [](const Lifetime& a, const Lifetime& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.begin < b.begin;
  });
  std::uint64_t duration = 0;
  for (const Lifetime& life : blocks) duration = std::max(duration, life.end);
  Placed placed(duration);
  std::uint64_t height = 0;
  for (const Lifetime& life : blocks) {
    std::uint64_t offset = 0;
    for (const auto& [begin, end] : placed.beside(life)) {
      if (begin >= offset + life.bytes) break;
      offset = std::max(offset, end);
    }
    placed.add(life, offset);
    height = std::max(height, offset + life.bytes);
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
      bytes_ += event.high_bytes;
      low_ += event.low_bytes;
      live_peak_ = std::max(live_peak_, bytes_);
      live_peak_low_ = std::max(live_peak_low_, low_);
      ++requests_;
    } else if (event.kind == EventKind::kFree) {
      Live& live = live_[event.slot];
      bytes_ -= live.bytes;
      low_ -= live.low;
      if (requests_ <= kMostBlocks) blocks_.push_back({live.bytes, live.begin, now_});
      live = {};
    }
  }
  if (requests_ > kMostBlocks) blocks_ = {};
}

std::optional<std::uint64_t> Lifetimes::packed_bytes() const {
  if (requests_ > kMostBlocks) return std::nullopt;
  std::vector<Lifetime> blocks = blocks_;
  for (const Live& live : live_) {
    if (live.bytes != 0) blocks.push_back({live.bytes, live.begin, now_ + 1});
  }
  return packed_height(std::move(blocks));
}

}  // namespace gpumemtrace::analyzer::replay
