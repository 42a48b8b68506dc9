// SPDX-License-Identifier: Apache-2.0
// The settings in PYTORCH_CUDA_ALLOC_CONF, as far as they affect memory of the device.
//
// Sources: c10/core/AllocatorConfig.cpp, c10/cuda/CUDAAllocatorConfig.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gpumemtrace::analyzer::replay {

inline constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
// The allocator's unit: every size that it uses is a multiple of these bytes.
inline constexpr std::uint64_t kUnitBytes = 512;
// Requests up to this size come from the small pool.
inline constexpr std::uint64_t kLargestSmallBytes = kMib;
inline constexpr std::uint64_t kSmallSegmentBytes = 2 * kMib;
// A request of this size or more gets a segment of its own, rounded up to kLargeRoundingBytes.
inline constexpr std::uint64_t kLeastOwnSegmentBytes = 10 * kMib;
inline constexpr std::uint64_t kLargeRoundingBytes = 2 * kMib;
inline constexpr std::uint64_t kDefaultLargeSegmentBytes = 20 * kMib;

// The version of PyTorch, 2.minor, on which the allocator's rules depend.
struct TorchRules {
  int minor = 11;
  // True if a replay of a trace of this version was found to place every block as PyTorch did.
  [[nodiscard]] bool was_proven() const { return minor == 11; }
  // True if ">" in a list of divisions overwrites the last interval named before it (until 2.9).
  [[nodiscard]] bool rest_overwrites_last_interval() const { return minor < 10; }
};
// Parses a version such as "2.11.0+cu130"; text that cannot be read counts as the newest version
// known here.
[[nodiscard]] TorchRules rules_of_version(std::string_view version);

enum class Backend { kNative, kAsync };

// An error in the text of settings: PyTorch does not accept it, or it cannot be replayed. The
// message names the option.
class SettingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct AllocatorSettings {
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
  // The number of intervals of sizes, each with its own divisions: below 2 MiB, 2 to 4 MiB, and so
  // on up to 32 GiB and more.
  static constexpr std::size_t kIntervals = 16;

  Backend backend = Backend::kNative;
  bool expandable = false;
  std::uint64_t max_split_bytes = kNoLimit;
  std::uint64_t max_non_split_rounding_bytes = kDefaultLargeSegmentBytes;
  std::uint64_t large_segment_bytes = kDefaultLargeSegmentBytes;
  double garbage_collection_threshold = 0;
  double memory_fraction = 1;
  std::array<std::uint64_t, kIntervals> divisions{};

  [[nodiscard]] bool rounds_to_divisions() const;
  // The bytes of a request as these settings round them: a multiple of kUnitBytes.
  [[nodiscard]] std::uint64_t round_request(std::uint64_t bytes) const;
  // largest_within() returns the largest request, in steps of kUnitBytes, that is rounded to
  // `bytes` or fewer; smallest_rounded_to() the smallest one that is rounded to `bytes` or more.
  [[nodiscard]] std::uint64_t largest_within(std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t smallest_rounded_to(std::uint64_t bytes) const;
  // The bytes that the driver is asked for if no free block serves a rounded request.
  [[nodiscard]] std::uint64_t segment_bytes(std::uint64_t rounded) const;
  [[nodiscard]] std::uint64_t page_bytes(bool small) const {
    return small ? kSmallSegmentBytes : large_segment_bytes;
  }
  // The bytes of a device that memory_fraction allows; 0 if it allows all, or if the size of the
  // device is not known.
  [[nodiscard]] std::uint64_t allowed_bytes(std::uint64_t device_bytes) const {
    if (memory_fraction == 1) return 0;
    return static_cast<std::uint64_t>(memory_fraction * static_cast<double>(device_bytes));
  }
  // Settings with the same effect on requests up to `bytes`: without unused divisions, and without
  // max_split_bytes if no block reaches it.
  [[nodiscard]] AllocatorSettings for_requests_up_to(std::uint64_t bytes) const;
  // Describes a known problem of these settings together; empty if there is none. `is_limited`:
  // PyTorch has a memory limit below the device's size that is not in these settings.
  [[nodiscard]] std::string warning(bool is_limited = false) const;

  friend bool operator==(const AllocatorSettings&, const AllocatorSettings&) = default;
};

// PyTorch's own limit on a card that is `scale` times as large.
[[nodiscard]] std::uint64_t scaled_limit(std::uint64_t limit, double scale);

// Parses PYTORCH_CUDA_ALLOC_CONF; empty text stands for PyTorch's defaults. Throws SettingError.
[[nodiscard]] AllocatorSettings parse_settings(std::string_view text, const TorchRules& rules);

// The settings of a program that sets a new text while it runs: some options keep their value if
// the text does not name them, others get their default.
[[nodiscard]] AllocatorSettings changed_settings(const AllocatorSettings& before,
                                                 std::string_view text, const TorchRules& rules);

// The settings in `text` with the memory fraction that the recorded ones name: the fraction is a
// limit of the job, not a policy.
[[nodiscard]] std::string with_recorded_limit(const std::string& text, const std::string& recorded);

}  // namespace gpumemtrace::analyzer::replay
