// SPDX-License-Identifier: Apache-2.0
#include "tools/live/live_view.hpp"

#include <algorithm>

#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/live/live_text.hpp"

namespace gpumemtrace::tools {

void LiveView::show(LiveState state) { state_ = std::move(state); }

std::size_t LiveView::chosen_row() const {
  const auto row = std::ranges::find_if(state_.rows, [&](const LiveRow& known) {
    return chosen_ == Place(known.process, known.device);
  });
  return row == state_.rows.end() ? 0 : static_cast<std::size_t>(row - state_.rows.begin());
}

bool LiveView::press(LiveKey key) {
  if (key == LiveKey::kPause) {
    is_paused_ = !is_paused_;
    return true;
  }
  const std::size_t row = chosen_row();
  std::size_t next = row;
  if (key == LiveKey::kUp && row > 0) --next;
  if (key == LiveKey::kDown && row + 1 < state_.rows.size()) ++next;
  if (next == row) return false;
  chosen_ = Place(state_.rows[next].process, state_.rows[next].device);
  return true;
}

Lines LiveView::lines(std::size_t width, std::size_t height,
                      std::chrono::nanoseconds next_look) const {
  Lines lines = live_lines(state_, width, height - std::min<std::size_t>(height, 1), chosen_row());
  std::string keys = "q ends this view";
  if (state_.rows.size() > 1) keys += ", arrows choose a row";
  const std::string time = duration_text(static_cast<std::uint64_t>(next_look.count()));
  lines.push_back(is_paused_ ? "Paused: space goes on, " + keys
                             : format_text("{}, space pauses; next look in {}", keys, time));
  return lines;
}

}  // namespace gpumemtrace::tools
