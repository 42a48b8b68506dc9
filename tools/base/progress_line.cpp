// SPDX-License-Identifier: Apache-2.0
#include "tools/base/progress_line.hpp"

#include <unistd.h>

#include <cstdio>

#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

// Back to the line's start, and clear it.
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

ProgressLine::ProgressLine(bool is_asked_for)
    : is_asked_for_(is_asked_for),
      is_terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (is_terminal_ && shown_percent_ >= 0) std::fputs(kClearLine, stderr);
}

void ProgressLine::update(double fraction) {
  if (!is_asked_for_ && !is_terminal_) return;
  if (!is_asked_for_ && std::chrono::steady_clock::now() - start_ < kPatience) return;
  const int step = is_terminal_ ? 1 : 10;
  const int percent = static_cast<int>(fraction * 100) / step * step;
  if (percent == shown_percent_) return;
  if (is_terminal_) {
    print_text(stderr, "{}gpumemtrace: analyzed {} %", kClearLine, percent);
  } else {
    print_text(stderr, "gpumemtrace: analyzed {} %\n", percent);
  }
  std::fflush(stderr);
  shown_percent_ = percent;
}

}  // namespace gpumemtrace::tools
