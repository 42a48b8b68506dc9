// SPDX-License-Identifier: Apache-2.0
// The memory of a card at the moment that a summary shows, with the parts that it is the sum of.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {

struct NamedPart {
  std::uint64_t bytes = 0;
  std::string name;
};

// At the card's peak, or when memory ran out, if that was as full. In reports from before
// card_peaks[], at the driver's peak of the process that took most.
struct CardState {
  std::string device;
  std::string process;
  std::uint64_t bytes = 0;                        // the parts' sum
  const analyzer::rows::CardPeak* row = nullptr;  // nullptr: by `composition`
  analyzer::rows::OptionalNumber step;
  bool has_failed = false;       // at the time of a failed request, not of the peak
  bool is_whole_card = false;    // contexts and other processes are among the parts
  std::vector<NamedPart> parts;  // largest first
  const analyzer::rows::Composition* composition = nullptr;  // nullptr: the driver's peak alone
};
[[nodiscard]] std::optional<CardState> card_state(const Report& report, const std::string& device);
// The card that was closest to its end.
[[nodiscard]] std::optional<CardState> fullest_card(const Report& report);

// nullptr if the report has none of that id.
[[nodiscard]] const analyzer::rows::Device* find_device(const Report& report,
                                                        const std::string& device);
// The largest peak of the framework's blocks, or of the memory below if others hold most of
// that; of `device` if one is named. nullptr if nothing was allocated.
[[nodiscard]] const analyzer::rows::Peak* main_peak(const Report& report,
                                                    std::string_view device = {});

}  // namespace gpumemtrace::tools
