// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/activity/kernel_overlap.hpp"

#include <algorithm>
#include <limits>

namespace gpumemtrace::analyzer {
namespace {

// Most copies kept while no kernel is known: kernels are recorded from the same time as copies on,
// or not at all.
constexpr std::size_t kMaxCopiesBeforeKernels = std::size_t{1} << 14;

// Sorts the spans and joins those that touch.
void make_disjoint(std::vector<TickSpan>& spans) {
  std::ranges::sort(spans, {}, [](const TickSpan& span) { return span.start; });
  std::size_t kept = 0;
  for (const TickSpan& span : spans) {
    if (kept != 0 && span.start <= spans[kept - 1].end) {
      spans[kept - 1].end = std::max(spans[kept - 1].end, span.end);
    } else {
      spans[kept++] = span;
    }
  }
  spans.resize(kept);
}

std::uint64_t overlap_of(const TickSpan& copy, const std::vector<TickSpan>& kernels) {
  auto kernel = std::ranges::upper_bound(kernels, copy.start, {}, &TickSpan::end);
  std::uint64_t sum = 0;
  for (; kernel != kernels.end() && kernel->start < copy.end; ++kernel) {
    sum += std::min(kernel->end, copy.end) - std::max(kernel->start, copy.start);
  }
  return sum;
}

}  // namespace

void KernelOverlap::add_kernel(std::int32_t device, const TickSpan& time) {
  ++kernels_;
  Device& state = devices_[device];
  state.kernels.push_back(time);
  if (state.kernels.size() >= kMaxKept) count_finished_overlaps(state, false);
}

void KernelOverlap::add_copy(std::int32_t device, const TickSpan& time, std::uint32_t row) {
  Device& state = devices_[device];
  if (kernels_ == 0 && state.copies.size() >= kMaxCopiesBeforeKernels) return;
  state.copies.push_back({time, row});
  if (state.copies.size() >= kMaxKept) count_finished_overlaps(state, false);
}

void KernelOverlap::finish() {
  for (auto& [ordinal, device] : devices_) count_finished_overlaps(device, true);
}

// Counts the overlaps of the copies that ended before a horizon, which leaves about half of the
// kernels or copies, and drops all that later copies do not need. `is_end`: counts all copies.
void KernelOverlap::count_finished_overlaps(Device& device, bool is_end) {
  make_disjoint(device.kernels);
  std::ranges::sort(device.copies, {}, [](const Copy& copy) { return copy.time.end; });
  std::uint64_t horizon = std::numeric_limits<std::uint64_t>::max();
  if (!is_end) {
    horizon = device.kernels.empty() ? 0 : device.kernels[device.kernels.size() / 2].end;
    if (device.copies.size() >= kMaxKept) {
      horizon = std::max(horizon, device.copies[device.copies.size() / 2].time.end);
    }
  }
  auto copy = device.copies.begin();
  for (; copy != device.copies.end() && copy->time.end <= horizon; ++copy) {
    transfers_.row(copy->row).gpu.overlapped_ticks += overlap_of(copy->time, device.kernels);
  }
  device.copies.erase(device.copies.begin(), copy);
  std::uint64_t needed_from = horizon;
  for (const Copy& left : device.copies) needed_from = std::min(needed_from, left.time.start);
  const auto kernel = std::ranges::upper_bound(device.kernels, needed_from, {}, &TickSpan::end);
  device.kernels.erase(device.kernels.begin(), kernel);
  // A copy that never ends must not keep all kernels in memory.
  if (device.kernels.size() > kMaxKept / 2) {
    device.kernels.erase(device.kernels.begin(),
                         device.kernels.end() - static_cast<std::ptrdiff_t>(kMaxKept / 2));
  }
}

}  // namespace gpumemtrace::analyzer
