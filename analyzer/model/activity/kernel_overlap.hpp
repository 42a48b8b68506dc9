// SPDX-License-Identifier: Apache-2.0
// The time for which copies ran while kernels ran on the same device.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/model/activity/activity_clocks.hpp"
#include "analyzer/model/copies/transfers.hpp"

namespace gpumemtrace::analyzer {

// Records come in no strict order, up to seconds late. So kernels and copies are kept as long as
// there is room, and then the overlaps of the older half are counted. A record that comes too late
// for that counts as not overlapped.
class KernelOverlap {
 public:
  // most kernels, and most copies, kept for one device
  static constexpr std::size_t kMaxKept = std::size_t{1} << 20;

  explicit KernelOverlap(Transfers& transfers) : transfers_(transfers) {}

  void add_kernel(std::int32_t device, const TickSpan& time);
  void add_copy(std::int32_t device, const TickSpan& time, std::uint32_t row);
  void finish();
  // False if there are no kernel records; then nothing is known about overlaps.
  [[nodiscard]] bool has_kernels() const { return kernels_ != 0; }

 private:
  struct Copy {
    TickSpan time;
    std::uint32_t row = 0;
  };
  struct Device {
    std::vector<TickSpan> kernels;
    std::vector<Copy> copies;
  };

  void count_finished_overlaps(Device& device, bool is_end);

  Transfers& transfers_;
  std::map<std::int32_t, Device> devices_;
  std::uint64_t kernels_ = 0;
};

}  // namespace gpumemtrace::analyzer
