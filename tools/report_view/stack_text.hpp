// SPDX-License-Identifier: Apache-2.0
// Stacks of the report in words short enough for a line or a box.
#pragma once

#include <string>
#include <vector>

#include "analyzer/rows/report.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {

// The frames of a stack that are of use to a reader, innermost first: if the stack ends with Python
// frames of its own thread, the interpreter's native frames are left out.
[[nodiscard]] std::vector<const analyzer::rows::Frame*> readable_frames(
    const analyzer::rows::Report& report, const analyzer::rows::Stack& stack);

// True for frames of the user: Python lines, and native lines outside of libraries that only pass
// calls on.
[[nodiscard]] bool is_users_frame(const analyzer::rows::Frame& frame);

// A frame as a text: "step (train.py:12)", "model::grow(int) (model.cpp:4)", "cudnnCreate
// (libcudnn.so.9)", "libx.so+0x1234", "0x7f0012345678".
[[nodiscard]] std::string name_frame(const analyzer::rows::Frame& frame);

// The innermost native function and the user's frames, at most `most_frames` of them, innermost
// first and joined by " < ". Empty if there is no such stack or it has no such frames.
[[nodiscard]] std::string short_stack(const analyzer::rows::Report& report,
                                      const analyzer::rows::OptionalText& stack,
                                      std::size_t most_frames);

// The readable frames of a stack, innermost first, at most twenty; empty if there is no such stack.
[[nodiscard]] std::vector<std::string> stack_lines(const analyzer::rows::Report& report,
                                                   const analyzer::rows::OptionalText& stack);

}  // namespace gpumemtrace::tools
