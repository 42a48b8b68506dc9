// SPDX-License-Identifier: Apache-2.0
// A line on the terminal that shows the progress of a long analysis.
#pragma once

#include <chrono>

namespace gpumemtrace::tools {

// - Writes to stderr, only if that is a terminal and only after kPatience. Its line is gone when
//   the object is, so that messages and results stand alone.
// - If the user asked for it, it writes from the start and to anything: in logs, one line for every
//   tenth of the work.
class ProgressLine {
 public:
  explicit ProgressLine(bool is_asked_for);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `fraction` of the work is done, 0 to 1.
  void update(double fraction);

 private:
  static constexpr std::chrono::milliseconds kPatience{1000};

  bool is_asked_for_ = false;
  bool is_terminal_ = false;
  int shown_percent_ = -1;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace gpumemtrace::tools
