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

// The moment is the card's peak, or the failure of a request if the card was about as full then. In
// older reports without card_peaks[], it is the driver's peak of the process that used most.
struct CardState {
  std::string device;
  std::string process;
  std::uint64_t bytes = 0;                        // sum of the parts
  const analyzer::rows::CardPeak* row = nullptr;  // nullptr: `parts` are those of `composition`
  analyzer::rows::OptionalNumber step;
  bool has_failed = false;       // the moment is that of a failed request
  bool is_whole_card = false;    // `parts` include contexts and other processes
  std::vector<NamedPart> parts;  // parts of the memory, largest first
  // The composition at that moment; nullptr: only the driver's peak is known.
  const analyzer::rows::Composition* composition = nullptr;
};
[[nodiscard]] std::optional<CardState> card_state(const Report& report, const std::string& device);
// The card that came closest to being full.
[[nodiscard]] std::optional<CardState> fullest_card(const Report& report);

// The device with that id; nullptr if the report has none.
[[nodiscard]] const analyzer::rows::Device* find_device(const Report& report,
                                                        const std::string& device);
// The largest peak of the framework's blocks; instead the largest peak of the lower levels if there
// are no blocks, or if it is more than twice as large and code other than the framework holds most
// of it. Only peaks on `device` if it is not empty. nullptr if nothing was allocated.
[[nodiscard]] const analyzer::rows::Peak* main_peak(const Report& report,
                                                    std::string_view device = {});

}  // namespace gpumemtrace::tools
