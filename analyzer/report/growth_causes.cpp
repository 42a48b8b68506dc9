// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/growth_causes.hpp"

#include <algorithm>
#include <cstddef>

#include "analyzer/owners/owners.hpp"

namespace gpumemtrace::analyzer {
namespace {

// A row with the user's Python frames around the model's call, outermost first: what keeps a graph
// is seldom the model's own code.
struct Place {
  rows::Growth* row = nullptr;
  std::vector<StackFrame> frames;
  bool is_in_layer = false;  // its line is the model's own
};

bool is_module_call(const StackFrame& frame) {
  return frame.file.ends_with("/torch/nn/modules/module.py") &&
         frame.function.ends_with("_call_impl");
}

Place place_of(rows::Growth& row, const FramesOf& frames_of) {
  Place place{&row, {}, false};
  if (row.level != Level::kFramework || !row.origin.stack) return place;
  const std::vector<StackFrame> frames = frames_of(*row.origin.stack);
  bool in_module = false;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (!frame->is_python) continue;
    in_module = in_module || is_module_call(*frame);
    if (!is_users_python_file(frame->file)) continue;
    if (in_module) {
      place.is_in_layer = true;
    } else {
      place.frames.push_back(*frame);
    }
  }
  return place;
}

bool is_same_function(const StackFrame& frame, const StackFrame& other) {
  return frame.file == other.file && frame.function == other.function;
}

// How many frames, from the outermost on, are the same in both.
std::size_t common_frames(const Place& place, const Place& other) {
  std::size_t count = 0;
  while (count < place.frames.size() && count < other.frames.size() &&
         is_same_function(place.frames[count], other.frames[count]) &&
         place.frames[count].line == other.frames[count].line) {
    ++count;
  }
  return count;
}

// Both are called from one line, or from lines of one function.
bool have_common_caller(const Place& place, const Place& other) {
  return !place.frames.empty() && !other.frames.empty() &&
         is_same_function(place.frames[0], other.frames[0]);
}

// Each step leaves as many blocks of the other as of the one, or a multiple.
bool keeps_pace(const rows::Growth& row, const rows::Growth& other) {
  const std::uint64_t few = std::min(row.blocks, other.blocks);
  const std::uint64_t many = std::max(row.blocks, other.blocks);
  if (few == 0) return false;
  const std::uint64_t rest = many % few;
  return std::min(rest, few - rest) * 10 <= few;
}

bool belong_together(const Place& place, const Place& other) {
  return (place.is_in_layer || other.is_in_layer) && place.row->device == other.row->device &&
         have_common_caller(place, other) && keeps_pace(*place.row, *other.row);
}

rows::CodeLocation meeting_point(const std::vector<Place>& places) {
  const Place& first = places[0];
  std::size_t common = first.frames.size();
  for (const Place& place : places) common = std::min(common, common_frames(first, place));
  const bool is_function = std::all_of(places.begin(), places.end(), [&](const Place& place) {
    return common < place.frames.size() && common < first.frames.size() &&
           is_same_function(place.frames[common], first.frames[common]);
  });
  const StackFrame& frame = first.frames[is_function ? common : common - 1];
  rows::CodeLocation location;
  location.site.function = rows::text_or_none(frame.function);
  location.site.file = rows::text_or_none(frame.file);
  location.site.line = rows::number_or_none(frame.line);
  location.site.language = rows::Language::kPython;
  location.stack = first.row->origin.stack;
  return location;
}

}  // namespace

void find_growth_causes(std::vector<rows::Growth>& rows, const FramesOf& frames_of) {
  std::vector<Place> left;
  for (rows::Growth& row : rows) left.push_back(place_of(row, frames_of));
  while (!left.empty()) {
    const Place first = left.front();
    const auto joins = [&](const Place& other) {
      return other.row == first.row || belong_together(first, other);
    };
    std::vector<Place> together;
    std::copy_if(left.begin(), left.end(), std::back_inserter(together), joins);
    std::erase_if(left, joins);
    if (together.size() == 1) continue;
    const rows::CodeLocation location = meeting_point(together);
    for (const Place& place : together) place.row->kept_at = location;
  }
}

}  // namespace gpumemtrace::analyzer
