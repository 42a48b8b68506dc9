// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/stack_text.hpp"

#include <algorithm>

#include "analyzer/owners/owners.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

bool is_python(const Json& frame) { return text_or(frame, "kind", "") == "python"; }

std::string file_of(const Json& frame) {
  return std::string(analyzer::base_name(text_or(frame, "file", "")));
}

// "(train.py:12)" or "(libops.so)"; empty where neither is known.
std::string location_of(const Json& frame) {
  std::string location = file_of(frame);
  const auto line = number_in(frame, "line");
  if (!location.empty() && line) location += format_text(":{}", *line);
  if (location.empty()) location = text_or(frame, "module", "");
  return location.empty() ? location : " (" + location + ")";
}

const Json* find_stack(const Json& report, const std::string& id) {
  for (const Json& stack : report.at("stacks")) {
    if (text_or(stack, "id", "") == id) return &stack;
  }
  return nullptr;
}

// Of the user: their Python lines, and native lines outside of libraries that only pass calls on.
bool is_users(const Json& frame) {
  const std::string file = text_or(frame, "file", "");
  if (is_python(frame)) return analyzer::is_users_python_file(file);
  return !file.empty() && analyzer::is_users_source_file(file) &&
         analyzer::is_users_function(text_or(frame, "function", ""));
}

}  // namespace

std::vector<const Json*> readable_frames(const Json& stack) {
  const Json& frames = stack.at("frames");
  const bool own_python = !frames.empty() && is_python(frames.back()) &&
                          (!stack.contains("inferred_from") || stack.at("inferred_from").is_null());
  std::vector<const Json*> readable;
  bool in_interpreter = false;
  for (const Json& frame : frames) {
    in_interpreter = in_interpreter || analyzer::is_interpreter(text_or(frame, "module", ""));
    if (own_python && in_interpreter && !is_python(frame)) continue;
    readable.push_back(&frame);
  }
  return readable;
}

std::string name_frame(const Json& frame) {
  if (const auto function = text_in(frame, "function")) return *function + location_of(frame);
  const std::uint64_t offset = number_or_zero(frame, "offset");
  const auto module = text_in(frame, "module");
  if (module) return format_text("{}+{:#x}", *module, offset);
  return is_python(frame) ? "unknown Python function" : format_text("{:#x}", offset);
}

std::string short_function(const std::string& function) {
  return std::string(analyzer::bare_function_name(function));
}

std::string short_stack(const Json& report, const Json& row, std::size_t most_frames) {
  const auto id = text_in(row, "stack");
  const Json* const stack = id ? find_stack(report, *id) : nullptr;
  if (stack == nullptr) return {};
  const std::vector<const Json*> frames = readable_frames(*stack);
  const auto innermost = std::find_if(frames.begin(), frames.end(), [](const Json* frame) {
    return !is_python(*frame) && text_in(*frame, "function");
  });
  std::string text;
  std::size_t shown = 0;
  for (auto frame = frames.begin(); frame != frames.end() && shown < most_frames; ++frame) {
    if (frame != innermost && !is_users(**frame)) continue;
    const auto function = text_in(**frame, "function");
    if (!function) continue;
    text += (text.empty() ? "" : " < ") + short_function(*function) + location_of(**frame);
    ++shown;
  }
  return text;
}

}  // namespace gpumemtrace::tools
