// SPDX-License-Identifier: Apache-2.0
#include "tools/live/live_screen.hpp"

#include <ncurses.h>

#include <algorithm>
#include <csignal>
#include <limits>

namespace gpumemtrace::tools {
namespace {

volatile std::sig_atomic_t g_is_ended = 0;

void request_end(int) { g_is_ended = 1; }

void end_on(int signal) {
  struct sigaction action = {};
  action.sa_handler = request_end;  // without SA_RESTART: getch() returns
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

}  // namespace gpumemtrace::tools
