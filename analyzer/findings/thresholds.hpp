// SPDX-License-Identifier: Apache-2.0
// The sizes and numbers from which on rules report something: a table, each row of which users can
// override.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumemtrace::analyzer {

// The shortest time for which a rate is given: a rate over less does not predict the next minute.
inline constexpr std::uint64_t kShortestRateNs = 1'000'000'000;

enum class Threshold : std::uint8_t {
  kLeakBytes,
  kGrowthBytes,
  kGrowthRises,
  kGrowthWarmupShare,
  kGrowthFreeShare,
  kGrowthFillShare,
  kCyclesBytes,
  kCyclesCollections,
  kRepeatedBytes,
  kRepeatedTimes,
  kTransferShare,
  kPageableBytes,
  kSynchronousCount,
  kSmallCount,
  kSmallMeanBytes,
  kPingPongCount,
  kPingPongBytes,
  kLowBandwidthMeanBytes,
  kLowBandwidthShare,
  kNotHiddenMeanBytes,
  kNotHiddenShare,
  kManagedRoundTrips,
  kFragmentationBytes,
  kFragmentationShare,
  kChurnCount,
  kChurnWarmupShare,
  kLoadedBytes,
  kPinnedRoundingBytes,
  kPinnedRoundingShare,
  kRankBytes,
  kRankShare,
  kRankFullShare,
  kRankEndedShare,
  kGradientBytes,
  kGraphBytes,
  kGraphShare,
  kPiledGraphsCount,
  kPiledGraphsBytes,
  kIdleContextsBytes,
  kIdleContextsShare,
  kPoolsCount,
  kPoolsBytes,
  kPoolsUsedShare,
  kCommunicatorsCount,
  kCommunicatorsBytes,
  kCount,
};

enum class ThresholdUnit : std::uint8_t { kBytes, kCount, kShare };

struct ThresholdInfo {
  std::string_view name;
  ThresholdUnit unit = ThresholdUnit::kCount;
  double value = 0;  // the default value; shares are from 0 to 1
  std::string_view meaning;
};

inline constexpr std::array kThresholds = {
    ThresholdInfo{"leak.bytes", ThresholdUnit::kBytes, 1, "least bytes that one place lost"},
    ThresholdInfo{"growth.bytes", ThresholdUnit::kBytes, 16 * 1024, "least bytes of growth"},
    ThresholdInfo{"growth.rises", ThresholdUnit::kCount, 6,
                  "least number of stretches of the run in which live memory rose for good"},
    ThresholdInfo{"growth.warmup_share", ThresholdUnit::kShare, 0.25,
                  "part of the run's allocations and frees that counts as warm-up"},
    ThresholdInfo{"growth.free_share", ThresholdUnit::kShare, 0.3,
                  "least frees for an allocation after the warm-up; below it the run only builds "
                  "up"},
    ThresholdInfo{"growth.fill_share", ThresholdUnit::kShare, 0.25,
                  "least part of the peak by which one place rises where the run only builds up"},
    ThresholdInfo{"reference_cycles.bytes", ThresholdUnit::kBytes, 16 * 1024 * 1024,
                  "least bytes of one place that one collection freed"},
    ThresholdInfo{"reference_cycles.collections", ThresholdUnit::kCount, 3,
                  "least number of collections that freed memory of one place"},
    ThresholdInfo{"repeated_copies.bytes", ThresholdUnit::kBytes, 16 * 1024 * 1024,
                  "least bytes that one place sends again"},
    ThresholdInfo{"repeated_copies.times", ThresholdUnit::kCount, 8,
                  "least number of times that one place sends each of its contents, in the mean"},
    ThresholdInfo{"transfer.share", ThresholdUnit::kShare, 0.05,
                  "least part of the time from a line's first copy to its last that its copies "
                  "take by themselves; below it they are for information"},
    ThresholdInfo{"pageable_copies.bytes", ThresholdUnit::kBytes, 16 * 1024 * 1024,
                  "least bytes that one place copies, most of them where it has copied before: "
                  "a model that is loaded does not count"},
    ThresholdInfo{"synchronous_copies.count", ThresholdUnit::kCount, 100,
                  "least number of copies by one place"},
    ThresholdInfo{"small_copies.count", ThresholdUnit::kCount, 1000,
                  "least number of copies by one place"},
    ThresholdInfo{"small_copies.mean_bytes", ThresholdUnit::kBytes, 64 * 1024,
                  "largest mean size of a small copy"},
    ThresholdInfo{"ping_pong.count", ThresholdUnit::kCount, 16,
                  "least number of round trips of one place"},
    ThresholdInfo{"ping_pong.bytes", ThresholdUnit::kBytes, 16 * 1024 * 1024,
                  "least bytes that come back to one place"},
    ThresholdInfo{"low_bandwidth.mean_bytes", ThresholdUnit::kBytes, 1024 * 1024,
                  "least mean size of a copy that can fill its link"},
    ThresholdInfo{"low_bandwidth.share", ThresholdUnit::kShare, 0.5,
                  "part of the link's bandwidth that is too little below"},
    ThresholdInfo{"copies_not_hidden.mean_bytes", ThresholdUnit::kBytes, 1024 * 1024,
                  "least mean size of a copy that is worth hiding"},
    ThresholdInfo{"copies_not_hidden.share", ThresholdUnit::kShare, 0.25,
                  "part of the copies' time beside kernels that is too little below"},
    ThresholdInfo{"managed_thrash.round_trips", ThresholdUnit::kCount, 2,
                  "least number of times that an allocation's size went up and came down again"},
    ThresholdInfo{"fragmentation.bytes", ThresholdUnit::kBytes, 64 * 1024 * 1024,
                  "least free bytes beside live blocks"},
    ThresholdInfo{"fragmentation.share", ThresholdUnit::kShare, 0.2,
                  "least part of the reserved bytes that is free beside live blocks"},
    ThresholdInfo{"churn.count", ThresholdUnit::kCount, 100,
                  "least number of allocations by one place after the warm-up"},
    ThresholdInfo{"churn.warmup_share", ThresholdUnit::kShare, 0.25,
                  "part of the run's allocations and frees that counts as warm-up"},
    ThresholdInfo{"loaded_and_kept.bytes", ThresholdUnit::kBytes, 16 * 1024 * 1024,
                  "least bytes at the peak that one place loaded and that were copied since"},
    ThresholdInfo{"pinned_rounding.bytes", ThresholdUnit::kBytes, 64 * 1024 * 1024,
                  "least bytes of pinned memory that no copy of the program used"},
    ThresholdInfo{"pinned_rounding.share", ThresholdUnit::kShare, 0.2,
                  "least part of the pinned memory that these are"},
    ThresholdInfo{"rank_imbalance.bytes", ThresholdUnit::kBytes, 64 * 1024 * 1024,
                  "least difference from the median of the other ranks of the group"},
    ThresholdInfo{"rank_imbalance.share", ThresholdUnit::kShare, 0.1,
                  "least difference as a part of that median"},
    ThresholdInfo{"rank_imbalance.full_share", ThresholdUnit::kShare, 0.8,
                  "least part of the largest rank's device that is in use at its peak; below it, "
                  "or where its size is not known, the difference is for information"},
    ThresholdInfo{"rank_ended_early.share", ThresholdUnit::kShare, 0.1,
                  "least part of the job's time by which a rank ended before the others"},
    ThresholdInfo{"gradients_in_forward.bytes", ThresholdUnit::kBytes, 16 * 1024 * 1024,
                  "least bytes of gradients that live on"},
    ThresholdInfo{"graph_without_backward.bytes", ThresholdUnit::kBytes, 64 * 1024 * 1024,
                  "least bytes at the peak that forward passes without a backward pass held"},
    ThresholdInfo{"graph_without_backward.share", ThresholdUnit::kShare, 0.25,
                  "least part of the peak that these are"},
    ThresholdInfo{"graphs_pile_up.count", ThresholdUnit::kCount, 100,
                  "least number of CUDA graphs that are alive at once"},
    ThresholdInfo{"graphs_pile_up.bytes", ThresholdUnit::kBytes, 64 * 1024 * 1024,
                  "least bytes by which the driver's part rises meanwhile"},
    ThresholdInfo{"idle_contexts.bytes", ThresholdUnit::kBytes, 256 * 1024 * 1024,
                  "least bytes that contexts of processes without work take together"},
    ThresholdInfo{"idle_contexts.share", ThresholdUnit::kShare, 0.05,
                  "largest part of what such a process takes that its own calls asked for"},
    ThresholdInfo{"many_private_pools.count", ThresholdUnit::kCount, 3,
                  "least number of private pools on a device"},
    ThresholdInfo{"many_private_pools.bytes", ThresholdUnit::kBytes, 256 * 1024 * 1024,
                  "least bytes that they reserve beyond the largest one"},
    ThresholdInfo{"many_private_pools.used_share", ThresholdUnit::kShare, 0.5,
                  "part of what they reserve that is too much in use above, after the captures"},
    ThresholdInfo{"many_communicators.count", ThresholdUnit::kCount, 5,
                  "least number of communicators of one place that live at once on a device"},
    ThresholdInfo{"many_communicators.bytes", ThresholdUnit::kBytes, 256 * 1024 * 1024,
                  "least bytes that they hold together"},
};
static_assert(kThresholds.size() == static_cast<std::size_t>(Threshold::kCount));

// The values that apply: the defaults unless set() changed them.
class Thresholds {
 public:
  [[nodiscard]] double operator[](Threshold threshold) const {
    return values_[static_cast<std::size_t>(threshold)];
  }
  [[nodiscard]] std::uint64_t bytes(Threshold threshold) const { return number(threshold); }
  [[nodiscard]] std::uint64_t count(Threshold threshold) const { return number(threshold); }
  void set(std::size_t row, double value) { values_[row] = value; }

  friend bool operator==(const Thresholds&, const Thresholds&) = default;

 private:
  [[nodiscard]] std::uint64_t number(Threshold threshold) const {
    const double value = (*this)[threshold];
    return value < 0x1p64 ? static_cast<std::uint64_t>(value) : ~std::uint64_t{0};
  }

  std::array<double, kThresholds.size()> values_ = [] {
    std::array<double, kThresholds.size()> defaults{};
    for (std::size_t i = 0; i < defaults.size(); ++i) defaults[i] = kThresholds[i].value;
    return defaults;
  }();
};

}  // namespace gpumemtrace::analyzer
