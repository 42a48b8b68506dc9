// SPDX-License-Identifier: Apache-2.0
// The screen of `live`: the part of a running job that the user selected by keys, the terminal on
// which it is drawn again and again, and the pauses between two readings of the job's state.
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
  // Takes a new state. The selected row stays selected if the state still has it.
  void show(LiveState state);
  // Handles a key; returns true if the screen must be drawn again.
  [[nodiscard]] bool press(LiveKey key);

  [[nodiscard]] const LiveState& state() const { return state_; }
  [[nodiscard]] bool is_paused() const { return is_paused_; }
  // The text of the screen: at most `height` lines, the last of which explains the keys.
  [[nodiscard]] Lines lines(std::size_t width, std::size_t height,
                            std::chrono::nanoseconds next_look) const;

 private:
  using Place = std::pair<std::string, std::optional<std::string>>;  // id of process, of device

  [[nodiscard]] std::size_t chosen_row() const;

  LiveState state_;
  std::optional<Place> chosen_;  // the selected row; none: the first one
  bool is_paused_ = false;
};

// The terminal as a screen that is drawn again and again.
//
// - One object at a time, used by one thread. The destructor restores the terminal, also after
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
  // Waits at most `time` for a key. Returns kEnd for q, SIGTERM, SIGINT and SIGHUP; kNone if the
  // time has passed, for a key without a meaning, and if the terminal's size has changed.
  [[nodiscard]] LiveKey wait_for_key(std::chrono::milliseconds time);
};

// The pause after a reading of the job's state that took `took` of processor time: a multiple of
// `took`, but at most ten seconds, and always at least `interval`. Without a maximum, a busy job's
// pauses could grow without end, because a longer pause leaves more events for the next reading.
[[nodiscard]] std::chrono::nanoseconds pause_after_look(std::chrono::nanoseconds took,
                                                        std::chrono::nanoseconds interval);

}  // namespace gpumemtrace::tools
