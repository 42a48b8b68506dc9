// SPDX-License-Identifier: Apache-2.0
// A job's present state as text.
#pragma once

#include <cstddef>
#include <string>

#include "tools/base/lines.hpp"
#include "tools/live/live_state.hpp"

namespace gpumemtrace::tools {

// The state in at most `height` lines of at most `width` letters: a row for each process and
// device; for the selected row also categories, lines and layers, and its history if there is room.
[[nodiscard]] Lines live_lines(const LiveState& state, std::size_t width, std::size_t height,
                               std::size_t chosen_row = 0);

// The state as one JSON object for each row, each on a line of its own: time_ns, pid, rank, device,
// step, reserved_bytes, live_bytes, categories, job_peak_bytes, card_peak_bytes,
// growth_bytes_per_step, full_in_ns, losses, exact. Unknown values are null. `losses` is an object
// with the counts of the process's rows in losses[] (docs/report.schema.json).
[[nodiscard]] std::string live_json(const LiveState& state);

}  // namespace gpumemtrace::tools
