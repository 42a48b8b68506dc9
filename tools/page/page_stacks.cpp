// SPDX-License-Identifier: Apache-2.0
#include "tools/page/page_stacks.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr auto kMeasures = std::to_array<std::uint64_t rows::Cost::*>(
    {&rows::Cost::peak_bytes, &rows::Cost::leaked_bytes, &rows::Cost::allocated_bytes,
     &rows::Cost::copied_bytes});

std::uint64_t largest_measure(const rows::Cost& row) {
  std::uint64_t largest = 0;
  for (const auto measure : kMeasures) largest = std::max(largest, row.*measure);
  return largest;
}

// The `most` largest costs, and the sum of the others for each process and level, with the owner
// "other".
std::vector<rows::Cost> limited_costs(const std::vector<rows::Cost>& costs, std::size_t most) {
  if (costs.size() <= most) return costs;
  std::vector<const rows::Cost*> order;
  for (const rows::Cost& row : costs) order.push_back(&row);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [](const rows::Cost* row) { return largest_measure(*row); });
  std::vector<rows::Cost> kept;
  std::map<std::pair<std::string, std::string_view>, rows::Cost> rest;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const rows::Cost& row = *order[i];
    if (i < most) {
      kept.push_back(row);
      continue;
    }
    const std::string_view level = row.level ? name_of(*row.level) : std::string_view();
    rows::Cost& sum = rest[{row.process, level}];
    sum.process = row.process;
    sum.level = row.level;
    sum.origin.owner = "other";
    for (const auto measure : kMeasures) sum.*measure += row.*measure;
  }
  for (auto& [key, sum] : rest) kept.push_back(std::move(sum));
  return kept;
}

// A table of frames that stores frames with the same text once.
class FrameTable {
 public:
  std::uint64_t index_of(const rows::Frame& frame) {
    PageFrame row = {name_frame(frame), rows::text_or_none(frame.file.value_or("")),
                     rows::number_or_none(frame.line.value_or(0)), frame.language};
    const auto [found, added] =
        indexes_.try_emplace({row.name, row.file, row.line}, indexes_.size());
    if (added) rows_.push_back(std::move(row));
    return found->second;
  }
  std::vector<PageFrame> rows() { return std::move(rows_); }

 private:
  std::map<std::tuple<std::string, rows::OptionalText, rows::OptionalNumber>, std::uint64_t>
      indexes_;
  std::vector<PageFrame> rows_;
};

std::set<std::string> wanted_stacks(const rows::Report& report,
                                    const std::vector<rows::Cost>& costs) {
  std::set<std::string> wanted;
  const auto add_stacks_of = [&](const auto& list) {
    for (const auto& row : list) {
      if (row.origin.stack) wanted.insert(*row.origin.stack);
    }
  };
  add_stacks_of(costs);
  add_stacks_of(report.findings);
  if (report.blocks) add_stacks_of(*report.blocks);
  for (const rows::Peak& peak : report.peak) add_stacks_of(peak.holders);
  for (const rows::Oom& failure : report.oom) add_stacks_of(failure.holders);
  return wanted;
}

}  // namespace

PageCosts costs_with_stacks(const rows::Report& report, std::size_t most) {
  PageCosts page;
  page.costs = limited_costs(report.costs, most);
  const std::set<std::string> wanted = wanted_stacks(report, page.costs);
  FrameTable frames;
  for (const rows::Stack& stack : report.stacks) {
    if (!wanted.contains(stack.id)) continue;
    auto& [id, indexes] = page.stacks.emplace_back(stack.id, std::vector<std::uint64_t>());
    const auto readable = readable_frames(report, stack);
    for (auto frame = readable.rbegin(); frame != readable.rend(); ++frame) {
      indexes.push_back(frames.index_of(**frame));
    }
  }
  page.frames = frames.rows();
  return page;
}

}  // namespace gpumemtrace::tools
