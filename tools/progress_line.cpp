#include "tools/progress_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace gpumemtrace::tools {
namespace {

// Back to the line's begin, and clear it.
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

ProgressLine::ProgressLine()
    : is_terminal_(isatty(STDERR_FILENO) != 0), start_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (shown_percent_ >= 0) std::fputs(kClearLine, stderr);
}

void ProgressLine::update(double fraction) {
  const int percent = static_cast<int>(fraction * 100);
  if (!is_terminal_ || percent == shown_percent_) return;
  if (std::chrono::steady_clock::now() - start_ < kPatience) return;
  fmt::print(stderr, "{}gpumemtrace: analyzed {} %", kClearLine, percent);
  std::fflush(stderr);
  shown_percent_ = percent;
}

}  // namespace gpumemtrace::tools
