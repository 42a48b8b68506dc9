// SPDX-License-Identifier: Apache-2.0
// A job's present state as text.
#pragma once

#include <cstddef>
#include <string>

#include "tools/base/lines.hpp"
#include "tools/live/live_state.hpp"

namespace gpumemtrace::tools {

// At most `height` lines of at most `width` letters: a row a process and device, and of the chosen
// one its categories, lines and layers, and if there is room its history.
[[nodiscard]] Lines live_lines(const LiveState& state, std::size_t width, std::size_t height,
                               std::size_t chosen_row = 0);

// One JSON object a row, each on a line of its own: time_ns, pid, rank, device, step,
// reserved_bytes, live_bytes, categories, job_peak_bytes, card_peak_bytes, growth_bytes_per_step,
// full_in_ns, losses, exact. Unknown is null. losses is an object: how often what of
// docs/report.schema.json's losses[] was counted for the process.
[[nodiscard]] std::string live_json(const LiveState& state);

}  // namespace gpumemtrace::tools
