// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/stack_text.hpp"

#include <algorithm>

#include "analyzer/owners/owners.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::rows::Frame;
using analyzer::rows::Report;
using analyzer::rows::Stack;

bool is_python(const Frame& frame) { return frame.language == analyzer::rows::Language::kPython; }

// The place of a frame: "(train.py:12)" or "(libops.so)"; empty if neither is known.
std::string frame_location(const Frame& frame) {
  std::string location(analyzer::base_name(frame.file.value_or("")));
  if (!location.empty() && frame.line) location += format_text(":{}", *frame.line);
  if (location.empty()) location = frame.module.value_or("");
  return location.empty() ? location : " (" + location + ")";
}

// False for functions of CUDA's static runtime, whose names are hashes: the caller's frame tells
// which API function the program called.
bool has_readable_name(const Frame& frame) {
  return frame.function && !frame.function->starts_with("libcudart_static_");
}

// Joins the innermost native function and the user's frames, at most `most_frames` in all. Frames
// without a readable name are left out.
std::string short_text(const Report& report, const Stack& stack, std::size_t most_frames) {
  const std::vector<const Frame*> frames = readable_frames(report, stack);
  const auto innermost = std::ranges::find_if(
      frames, [](const Frame* frame) { return !is_python(*frame) && has_readable_name(*frame); });
  std::string text;
  std::size_t shown = 0;
  for (auto frame = frames.begin(); frame != frames.end() && shown < most_frames; ++frame) {
    if (frame != innermost && !is_users_frame(**frame)) continue;
    if (!has_readable_name(**frame)) continue;
    text += (text.empty() ? "" : " < ") + analyzer::short_function_name(*(*frame)->function) +
            frame_location(**frame);
    ++shown;
  }
  return text;
}

const Stack* find_stack(const analyzer::rows::Report& report,
                        const analyzer::rows::OptionalText& stack) {
  const auto found =
      std::ranges::find_if(report.stacks, [&](const Stack& row) { return row.id == stack; });
  return found == report.stacks.end() ? nullptr : &*found;
}

}  // namespace

// If the stack ends with Python frames of its own thread, native frames from the interpreter
// outwards are left out: they are the interpreter's own.
std::vector<const Frame*> readable_frames(const Report& report, const Stack& stack) {
  const std::vector<const Frame*> frames = frames_of(report, stack);
  const bool own_python = !frames.empty() && is_python(*frames.back()) && !stack.inferred_from;
  std::vector<const Frame*> readable;
  bool in_interpreter = false;
  for (const Frame* frame : frames) {
    in_interpreter = in_interpreter || analyzer::is_interpreter(frame->module.value_or(""));
    if (own_python && in_interpreter && !is_python(*frame)) continue;
    readable.push_back(frame);
  }
  return readable;
}

bool is_users_frame(const Frame& frame) {
  const std::string file = frame.file.value_or("");
  if (is_python(frame)) return analyzer::is_users_python_file(file);
  return !file.empty() && analyzer::is_users_source_file(file) &&
         analyzer::is_users_function(frame.function.value_or(""));
}

std::string name_frame(const Frame& frame) {
  if (frame.function) return *frame.function + frame_location(frame);
  const std::uint64_t offset = frame.offset.value_or(0);
  if (frame.module) return format_text("{}+{:#x}", *frame.module, offset);
  return is_python(frame) ? "unknown Python function" : format_text("{:#x}", offset);
}

std::string short_stack(const analyzer::rows::Report& report,
                        const analyzer::rows::OptionalText& stack, std::size_t most_frames) {
  const Stack* const found = find_stack(report, stack);
  return found == nullptr ? std::string() : short_text(report, *found, most_frames);
}

std::vector<std::string> stack_lines(const analyzer::rows::Report& report,
                                     const analyzer::rows::OptionalText& stack) {
  constexpr std::size_t kMostFrames = 20;
  std::vector<std::string> lines;
  const Stack* const found = find_stack(report, stack);
  if (found == nullptr) return lines;
  for (const Frame* frame : readable_frames(report, *found)) {
    if (lines.size() < kMostFrames) lines.push_back(name_frame(*frame));
  }
  return lines;
}

}  // namespace gpumemtrace::tools
