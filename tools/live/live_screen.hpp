// SPDX-License-Identifier: Apache-2.0
// The screen of a running job: the part that it shows, as the user chose by keys, the terminal that
// is drawn again and again, and the pause between.
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

// The part of a running job that its screen shows.
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

// The terminal as a screen that is drawn again and again.
//
// - One at a time, on one thread. The terminal is what it was when the object is gone, also after
//   SIGTERM, SIGINT and SIGHUP, which end wait_for_key().
// - Standard output must be a terminal.
class LiveScreen {
 public:
  LiveScreen();
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  [[nodiscard]] std::size_t width() const;
  [[nodiscard]] std::size_t height() const;
  void draw(const Lines& lines);
  // kEnd for q and for one of the signals; kNone after `time`, for a key without a meaning, and
  // when the terminal has another size.
  [[nodiscard]] LiveKey wait_for_key(std::chrono::milliseconds time);
};

// The pause after a look that took so much processor time: at least the interval. A job that calls
// more often than this leaves time for would make each look longer than the one before, without
// end: so at most ten seconds, if the interval is not longer.
[[nodiscard]] std::chrono::nanoseconds pause_after_look(std::chrono::nanoseconds took,
                                                        std::chrono::nanoseconds interval);

}  // namespace gpumemtrace::tools
