// SPDX-License-Identifier: Apache-2.0
// The peaks of a card, from the histories of the processes on it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analyzer/rows/card_history.hpp"
#include "analyzer/rows/card_rows.hpp"
#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

struct CardResults {
  // a row for the card and one for the job; none if no memory is known
  std::vector<rows::CardPeak> peaks;
  std::optional<rows::PhysicalPeak> physical_peak;
};

// `histories`: those of all processes on one card, in the order of the job's processes, with times
// of the job. Events of the same time are taken to happen in the order of the list.
[[nodiscard]] CardResults card_results(std::span<const rows::CardHistory* const> histories);

}  // namespace gpumemtrace::analyzer
