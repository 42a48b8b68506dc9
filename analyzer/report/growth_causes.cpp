// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/growth_causes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "analyzer/owners/owners.hpp"
#include "analyzer/stacks/pytorch_frames.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The frames of the user's Python code in a stack, outside of the model's call, outermost first: a
// graph is seldom kept by the model's own code.
struct UserFrames {
  rows::Growth* row = nullptr;  // nullptr for a stack whose memory did not grow
  std::vector<StackFrame> frames;
  bool is_in_module = false;
  bool is_own_layer = false;  // true if the user's own code runs inside the module's call
};

UserFrames user_frames_at(const std::string& stack, const FramesOf& frames_of) {
  UserFrames place;
  const std::vector<StackFrame> frames = frames_of(stack);
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (!frame->is_python) continue;
    place.is_in_module = place.is_in_module || is_module_call(frame->file, frame->function);
    if (!is_users_python_file(frame->file)) continue;
    place.is_own_layer = place.is_in_module;
    if (!place.is_in_module) place.frames.push_back(*frame);
  }
  return place;
}

UserFrames user_frames_of(rows::Growth& row, const FramesOf& frames_of) {
  UserFrames place;
  if (row.level == Level::kFramework && row.origin.stack) {
    place = user_frames_at(*row.origin.stack, frames_of);
  }
  place.row = &row;
  return place;
}

bool is_same_function(const StackFrame& frame, const StackFrame& other) {
  return frame.file == other.file && frame.function == other.function;
}

// The number of the user's frames that both stacks share, from the outermost on.
std::size_t common_frames(const UserFrames& place, const UserFrames& other) {
  std::size_t count = 0;
  while (count < place.frames.size() && count < other.frames.size() &&
         is_same_function(place.frames[count], other.frames[count]) &&
         place.frames[count].line == other.frames[count].line) {
    ++count;
  }
  return count;
}

// True if the outermost frames of the user in both stacks are in one function.
bool have_common_caller(const UserFrames& place, const UserFrames& other) {
  return !place.frames.empty() && !other.frames.empty() &&
         is_same_function(place.frames[0], other.frames[0]);
}

// The number of kept blocks: per step if both sites are measured by steps, since one site may have
// gone on for longer than the other.
double pace_of(const rows::Growth& row, const rows::Growth& other) {
  const auto blocks = static_cast<double>(row.blocks);
  const bool by_step = row.steps.value_or(0) != 0 && other.steps.value_or(0) != 0;
  return by_step ? blocks / static_cast<double>(*row.steps) : blocks;
}

// True if each step leaves as many blocks of one site as of the other, or a whole multiple.
bool keeps_pace(const rows::Growth& row, const rows::Growth& other) {
  constexpr double kTolerance = 0.1;
  const double pace = pace_of(row, other);
  const double pace_of_other = pace_of(other, row);
  if (std::min(pace, pace_of_other) <= 0) return false;
  const double times = std::max(pace, pace_of_other) / std::min(pace, pace_of_other);
  return std::abs(times - std::round(times)) <= kTolerance;
}

bool belong_together(const UserFrames& place, const UserFrames& other) {
  return place.row->device == other.row->device && place.row->only_fills == other.row->only_fills &&
         have_common_caller(place, other) && keeps_pace(*place.row, *other.row);
}

// True if both stacks have the same lines of the user's code outside of the model.
bool is_called_alike(const UserFrames& place, const UserFrames& other) {
  return place.frames.size() == other.frames.size() &&
         common_frames(place, other) == place.frames.size();
}

// True if graphs of autograd are kept. Two things show it: calls of the growing modules keep at
// least an eighth of what they allocate, and they keep some block other than the last one of each
// call, which may be the call's result. `stacks` are in the order of their last allocations.
bool keeps_graph(const std::vector<UserFrames>& together,
                 const std::vector<AllocatingStack>& stacks, const FramesOf& frames_of) {
  constexpr std::uint64_t kLeastShare = 8;  // a graph keeps at least 1/8
  const rows::Growth& first = *together.front().row;
  std::uint64_t fewest_calls = std::min(first.blocks, first.steps.value_or(first.blocks));
  for (const UserFrames& place : together) fewest_calls = std::min(fewest_calls, place.row->blocks);
  std::uint64_t kept = 0;
  std::uint64_t made = 0;
  bool keeps_earlier_block = false;
  for (const AllocatingStack& one : stacks) {
    if (one.device != first.device) continue;
    const UserFrames place = user_frames_at(one.stack, frames_of);
    const bool is_in_same_calls =
        place.is_in_module && std::ranges::any_of(together, [&](const UserFrames& each) {
          return each.is_in_module && is_called_alike(each, place);
        });
    if (!is_in_same_calls) continue;
    keeps_earlier_block = keeps_earlier_block || kept != 0;
    made += one.allocations;
    // Fewer than half of the calls keep a block of this stack, so it does not count.
    if (one.kept * 2 < fewest_calls) continue;
    kept += one.kept;
    // If a call keeps two blocks, one of them is not the last.
    keeps_earlier_block = keeps_earlier_block || one.kept >= 2 * fewest_calls;
  }
  return keeps_earlier_block && kept * kLeastShare >= made;
}

// The innermost line of the user's code that all stacks share, or, if all stacks then continue in
// one function, the first stack's line in that function.
rows::CodeLocation meeting_point(const std::vector<UserFrames>& places) {
  const UserFrames& first = places[0];
  std::size_t common = first.frames.size();
  for (const UserFrames& place : places) common = std::min(common, common_frames(first, place));
  const bool is_function = std::ranges::all_of(places, [&](const UserFrames& place) {
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

// Takes from `left` the first site, and all sites that grow with it or with one already taken.
std::vector<UserFrames> take_together(std::vector<UserFrames>& left) {
  std::vector<UserFrames> together = {left.front()};
  left.erase(left.begin());
  for (std::size_t i = 0; i < together.size(); ++i) {
    const UserFrames each = together[i];
    const auto joins = [&](const UserFrames& place) { return belong_together(each, place); };
    std::copy_if(left.begin(), left.end(), std::back_inserter(together), joins);
    std::erase_if(left, joins);
  }
  return together;
}

}  // namespace

void find_growth_causes(std::vector<rows::Growth>& rows, const std::vector<AllocatingStack>& stacks,
                        const FramesOf& frames_of) {
  std::vector<UserFrames> left;
  for (rows::Growth& row : rows) left.push_back(user_frames_of(row, frames_of));
  while (!left.empty()) {
    const std::vector<UserFrames> together = take_together(left);
    const bool has_model =
        std::ranges::any_of(together, [](const UserFrames& place) { return place.is_in_module; });
    // A single growing line of the user's own layer or hook keeps a reference, not a graph.
    const bool is_alone = together.size() == 1;
    if (!has_model || (is_alone && together.front().is_own_layer)) continue;
    const bool is_graph = keeps_graph(together, stacks, frames_of);
    for (const UserFrames& place : together) place.row->keeps_graph = is_graph;
    if (is_alone) continue;
    const rows::CodeLocation location = meeting_point(together);
    for (const UserFrames& place : together) place.row->kept_at = location;
  }
}

}  // namespace gpumemtrace::analyzer
