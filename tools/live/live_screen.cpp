// SPDX-License-Identifier: Apache-2.0
#include "tools/live/live_screen.hpp"

#include <ncurses.h>

#include <algorithm>
#include <csignal>
#include <limits>

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

namespace {

volatile std::sig_atomic_t g_is_ended = 0;

void request_end(int) { g_is_ended = 1; }

void end_on(int signal) {
  struct sigaction action = {};
  action.sa_handler = request_end;  // without SA_RESTART, so that a signal ends getch()
  sigaction(signal, &action, nullptr);
}

}  // namespace

LiveScreen::LiveScreen() {
  initscr();
  cbreak();
  noecho();
  keypad(stdscr, TRUE);
  curs_set(0);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) end_on(signal);
}

LiveScreen::~LiveScreen() { endwin(); }

std::size_t LiveScreen::width() const { return static_cast<std::size_t>(std::max(1, COLS)); }

std::size_t LiveScreen::height() const { return static_cast<std::size_t>(std::max(1, LINES)); }

void LiveScreen::draw(const Lines& lines) {
  erase();
  for (std::size_t i = 0; i < std::min(lines.size(), height()); ++i) {
    mvaddnstr(static_cast<int>(i), 0, lines[i].letters().c_str(), static_cast<int>(width()));
  }
  refresh();
}

LiveKey LiveScreen::wait_for_key(std::chrono::milliseconds time) {
  timeout(static_cast<int>(
      std::min<std::chrono::milliseconds::rep>(time.count(), std::numeric_limits<int>::max())));
  const int key = getch();
  if (g_is_ended != 0) return LiveKey::kEnd;
  switch (key) {
    case 'q':
    case 'Q':
      return LiveKey::kEnd;
    case KEY_UP:
    case 'k':
      return LiveKey::kUp;
    case KEY_DOWN:
    case 'j':
      return LiveKey::kDown;
    case ' ':
      return LiveKey::kPause;
    default:
      return LiveKey::kNone;
  }
}

namespace {

// The pause after a reading of the job's state, as a multiple of the processor time of the reading.
constexpr int kRest = 50;
constexpr std::chrono::seconds kMostRest{10};

}  // namespace

std::chrono::nanoseconds pause_after_look(std::chrono::nanoseconds took,
                                          std::chrono::nanoseconds interval) {
  return std::max(interval, std::min<std::chrono::nanoseconds>(kRest * took, kMostRest));
}

}  // namespace gpumemtrace::tools
