// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/card_text.hpp"

#include <vector>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rows/find_card_peak.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using rows::CardPartKind;

// A difference of less than one part in this many of a card's peak is not shown.
constexpr std::uint64_t kLeastDifference = 100;

}  // namespace

std::string range_text(std::uint64_t low_bytes, std::uint64_t high_bytes) {
  const std::string low = size_text(low_bytes);
  const std::string high = size_text(high_bytes);
  return low == high ? high : format_text("{} to {}", low, high);
}

std::string peak_text(const rows::CardPeak& peak) {
  return range_text(peak.low_bytes, peak.high_bytes);
}

std::string part_name(const rows::CardPart& part) {
  switch (part.what) {
    case CardPartKind::kFrameworkAllocated:
      return format_text("{} allocated", analyzer::framework_with_blocks().name);
    case CardPartKind::kFrameworkCached:
      return format_text("{}'s free cache", analyzer::framework_with_blocks().name);
    case CardPartKind::kPoolUsed:
      return "in use of pools";
    case CardPartKind::kPoolCached:
      return "free in pools";
    case CardPartKind::kAllocated:
      return part.owner.value_or("owner not known");
    case CardPartKind::kManaged:
      return "managed memory";
    case CardPartKind::kRounding:
      return "rounding by the driver";
    case CardPartKind::kDriver:
      return "CUDA contexts, code";
    case CardPartKind::kOtherProcesses:
      return "other processes";
    case CardPartKind::kNoProcess:
      return "no process";
    case CardPartKind::kNotSeparable:
      break;
  }
  return "contexts and other processes, not separable";
}

bool DevicePeaks::shows_both() const {
  return job != nullptr && card != nullptr && card->high_bytes > job->high_bytes &&
         card->high_bytes - job->high_bytes >= card->high_bytes / kLeastDifference;
}

DevicePeaks peaks_of(const rows::Report& report, const rows::Device& device) {
  return {&device, find_card_peak(report.card_peaks, device.id, rows::PeakOf::kJob),
          find_card_peak(report.card_peaks, device.id, rows::PeakOf::kCard)};
}

DevicePeaks fullest_device(const rows::Report& report) {
  DevicePeaks fullest;
  double most = -1;
  for (const rows::Device& device : report.devices) {
    const DevicePeaks peaks = peaks_of(report, device);
    if (peaks.job == nullptr || peaks.job->high_bytes == 0) continue;
    const rows::CardPeak& card = peaks.card == nullptr ? *peaks.job : *peaks.card;
    const double share = static_cast<double>(card.high_bytes) /
                         static_cast<double>(device.total_bytes.value_or(UINT64_MAX));
    if (share <= most) continue;
    most = share;
    fullest = peaks;
  }
  return fullest;
}

std::optional<analyzer::Level> level_of_holders(CardPartKind what) {
  switch (what) {
    case CardPartKind::kFrameworkAllocated:
      return analyzer::Level::kFramework;
    case CardPartKind::kPoolUsed:
      return analyzer::Level::kPool;
    case CardPartKind::kAllocated:
      return analyzer::Level::kDriver;
    case CardPartKind::kManaged:
      return analyzer::Level::kManaged;
    default:
      return std::nullopt;
  }
}

std::string besides_job(const rows::CardPeak& card) {
  std::vector<std::string> parts;
  for (const rows::CardPart& part : card.parts) {
    const bool is_of_job = part.process || part.what == CardPartKind::kNotSeparable;
    if (is_of_job || part.bytes < card.bytes / kLeastDifference) continue;
    parts.push_back(format_text("{} {}", part_name(part), size_text(part.bytes)));
  }
  return joined(parts);
}

}  // namespace gpumemtrace::tools
