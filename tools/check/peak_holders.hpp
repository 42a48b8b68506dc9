// SPDX-License-Identifier: Apache-2.0
// Who held the memory of a peak, or copied, line by line: what a failed limit names and a baseline
// keeps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

// The bytes that one call site held or copied, or a part of the memory that has no call site.
struct HeldBytes {
  std::string call_site;  // without its line, which moves when code above it changes
  std::string name;       // for people: with the line that held most
  std::uint64_t bytes = 0;
  std::optional<analyzer::rows::Site> site;
  std::optional<std::uint64_t> base_bytes;  // the bytes that a baseline has for it

  // The part that a baseline keeps.
  GPUMEMTRACE_FIELDS(call_site, name, bytes)
};

// The choice of a peak in the report.
struct PeakOfJob {
  // A row of card_peaks has the peak of all levels together; `level` chooses a peak of one level.
  std::optional<analyzer::rows::PeakOf> of;
  std::optional<analyzer::Level> level;
  std::optional<std::string> device;   // empty: of every device
  std::optional<std::string> process;  // as above
};

// Largest first. The lines are those of the peaks of each level, which can be at other times than a
// card's peak.
[[nodiscard]] std::vector<HeldBytes> holders_at(const analyzer::rows::Report& report,
                                                const PeakOfJob& peak);

// The peak of the whole job in maps by level.
inline constexpr const char* kPeakOfJob = "job";

// The bytes copied between host and devices, in maps by level.
inline constexpr const char* kTransfers = "transfers";

// The holders at the highest peak of a level by its name, or of "physical" or "job"; for
// "transfers" the lines that copied.
[[nodiscard]] std::vector<HeldBytes> holders_of_level(const analyzer::rows::Report& report,
                                                      const std::string& level);

// The holders that have more than `known` says, the one that grew most first. One that it does not
// have, because it keeps only the largest, may have held less than those.
[[nodiscard]] std::vector<HeldBytes> grown(std::vector<HeldBytes> holders,
                                           const std::vector<HeldBytes>& known);

// Copies that `transfers` counts.
[[nodiscard]] bool is_between_host_and_device(analyzer::Direction direction);

// The highest row of card_peaks[], over the devices; nullptr if the report has none.
[[nodiscard]] const analyzer::rows::CardPeak* highest_card_peak(
    const analyzer::rows::Report& report, analyzer::rows::PeakOf of);

}  // namespace gpumemtrace::tools
