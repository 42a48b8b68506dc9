// SPDX-License-Identifier: Apache-2.0
// The least memory that the blocks of a run need: the most that is live at once, and the height of
// a packing of the known lifetimes into one address range.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/replay/events.hpp"

namespace gpumemtrace::analyzer::replay {

// A block's size and lifetime, counted in events.
struct Lifetime {
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // the first event after the block was freed
};

// The height of a packing that places blocks by falling size, blocks of one size by age, each at
// the lowest free offset. It is never less than the most that is live at once. No value if so many
// blocks live at the same time that packing takes long: time is bounded in proportion to the number
// of blocks.
[[nodiscard]] std::optional<std::uint64_t> packed_height(std::vector<Lifetime> blocks);

// Collects lifetimes from the events of a device.
class Lifetimes final : public EventSink {
 public:
  // Runs with more blocks than this are not packed, for time and memory.
  static constexpr std::size_t kMostBlocks = 60'000;

  void apply(const std::vector<Event>& events) override;
  [[nodiscard]] std::uint64_t live_peak_bytes() const { return live_peak_; }
  [[nodiscard]] std::uint64_t live_peak_low_bytes() const { return live_peak_low_; }
  [[nodiscard]] std::uint64_t events() const { return now_; }
  // The largest request, refused ones included.
  [[nodiscard]] std::uint64_t largest_request_bytes() const { return largest_request_; }
  // The packed height; no value if there were more than kMostBlocks, or too many at the same time.
  [[nodiscard]] std::optional<std::uint64_t> packed_bytes() const;

 private:
  struct Live {
    std::uint64_t begin = 0;
    std::uint64_t high_bytes = 0;  // the most and the least that the block may take
    std::uint64_t low_bytes = 0;
  };
  std::vector<Live> live_;  // the live blocks, by slot
  std::vector<Lifetime> blocks_;
  std::uint64_t requests_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t high_bytes_ = 0;
  std::uint64_t low_bytes_ = 0;
  std::uint64_t live_peak_ = 0;
  std::uint64_t live_peak_low_ = 0;
  std::uint64_t largest_request_ = 0;
};

}  // namespace gpumemtrace::analyzer::replay
