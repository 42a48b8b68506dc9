// SPDX-License-Identifier: Apache-2.0
// The part of a running job that its screen shows, as the user chose by keys.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/base/lines.hpp"
#include "tools/live/live_state.hpp"

namespace gpumemtrace::tools {

enum class LiveKey { kNone, kEnd, kUp, kDown, kPause };

class LiveView {
 public:
  // The row that was chosen stays chosen if it is still there.
  void show(LiveState state);
  // Returns true if the screen is to be drawn again.
  [[nodiscard]] bool press(LiveKey key);

  [[nodiscard]] const LiveState& state() const { return state_; }
  [[nodiscard]] bool is_paused() const { return is_paused_; }
  // At most `height` lines, the last of which says what the keys do.
  [[nodiscard]] Lines lines(std::size_t width, std::size_t height,
                            std::chrono::nanoseconds next_look) const;

 private:
  using Place = std::pair<std::string, std::optional<std::string>>;  // process and device

  [[nodiscard]] std::size_t chosen_row() const;

  LiveState state_;
  std::optional<Place> chosen_;  // none: the first row, whichever that is
  bool is_paused_ = false;
};

}  // namespace gpumemtrace::tools
