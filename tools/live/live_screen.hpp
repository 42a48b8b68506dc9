// SPDX-License-Identifier: Apache-2.0
// The terminal as a screen that is drawn again and again.
#pragma once

#include <chrono>
#include <cstddef>

#include "tools/base/lines.hpp"
#include "tools/live/live_view.hpp"

namespace gpumemtrace::tools {

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

}  // namespace gpumemtrace::tools
