// SPDX-License-Identifier: Apache-2.0
// The peak of a device that every command shows and checks.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "analyzer/rows/card_rows.hpp"

namespace gpumemtrace::analyzer::rows {

// The row of this device and curve; nullptr if nothing is known of the device, and in older
// reports, which lack card_peaks[].
[[nodiscard]] inline const CardPeak* find_card_peak(const std::vector<CardPeak>& peaks,
                                                    std::string_view device, PeakOf of) {
  const auto row = std::ranges::find_if(
      peaks, [&](const CardPeak& peak) { return peak.device == device && peak.of == of; });
  return row == peaks.end() ? nullptr : &*row;
}

}  // namespace gpumemtrace::analyzer::rows
