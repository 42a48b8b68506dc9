// SPDX-License-Identifier: Apache-2.0
// Lists the call sites that held the memory of a peak, or that copied bytes: a failed limit names
// them and a baseline stores them.
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
  std::string call_site;  // without line number, which moves when code above it changes
  std::string name;       // for people to read: with the line that held most
  std::uint64_t bytes = 0;
  std::optional<analyzer::rows::Site> site;
  std::optional<std::uint64_t> base_bytes;  // the bytes that the baseline has for this call site

  // The fields that a baseline stores.
  GPUMEMTRACE_FIELDS(call_site, name, bytes)
};

// Selects a peak of the report.
struct PeakSelector {
  // A row of card_peaks has the peak of all levels together; `level` chooses a peak of one level.
  std::optional<analyzer::rows::PeakOf> of;
  std::optional<analyzer::Level> level;
  std::optional<std::string> device;   // empty: the peaks of every device
  std::optional<std::string> process;  // empty: the peaks of every process
};

// The holders at a peak, largest first. They come from the peaks of each level, which can be at
// other times than the peak of the card.
[[nodiscard]] std::vector<HeldBytes> holders_at(const analyzer::rows::Report& report,
                                                const PeakSelector& peak);

// The key of the whole job's peak, in maps whose other keys are levels.
inline constexpr const char* kPeakOfJob = "job";

// The key of the bytes copied between host and devices, in maps whose other keys are levels.
inline constexpr const char* kTransfers = "transfers";

// The holders at the highest peak of `level`, which is the name of a level, "physical" or "job";
// for "transfers" the lines that copied.
[[nodiscard]] std::vector<HeldBytes> holders_of_level(const analyzer::rows::Report& report,
                                                      const std::string& level);

// The holders that have more bytes than in `known`, the largest growth first. `known` lacks small
// holders: one that it lacks may have had as much as the smallest in it.
[[nodiscard]] std::vector<HeldBytes> grown(std::vector<HeldBytes> holders,
                                           const std::vector<HeldBytes>& known);

// True for the directions of copies that kTransfers counts.
[[nodiscard]] bool is_between_host_and_device(analyzer::Direction direction);

// The highest row of card_peaks[], over the devices; nullptr if the report has none.
[[nodiscard]] const analyzer::rows::CardPeak* highest_card_peak(
    const analyzer::rows::Report& report, analyzer::rows::PeakOf of);

}  // namespace gpumemtrace::tools
