// SPDX-License-Identifier: Apache-2.0
// Talks to the recording library inside another process, through the mailbox in its ring file.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "trace/ring_layout.hpp"

namespace gpumemtrace::tools {

inline constexpr int kControlTimeoutMs = 5000;

// Makes process `pid` carry out `command`; `text` is the name of a mark. Waits until other callers
// of this function are done, then for the answer. Throws Failure if the process is not being
// recorded, may not be reached or does not answer within kControlTimeoutMs.
void control_recording(pid_t pid, trace::ControlCommand command, const std::string& text);

// The trace that process `pid` writes. Throws Failure if the process is not being recorded or may
// not be inspected. It only reads.
[[nodiscard]] std::filesystem::path trace_recorded_by(pid_t pid);

}  // namespace gpumemtrace::tools
