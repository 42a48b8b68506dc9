// SPDX-License-Identifier: Apache-2.0
#include "tools/page/page_stacks.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "analyzer/json/report_json.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr auto kMeasures =
    std::to_array<const char*>({"peak_bytes", "leaked_bytes", "allocated_bytes", "copied_bytes"});

std::uint64_t largest_measure(const Json& row) {
  std::uint64_t largest = 0;
  for (const char* const key : kMeasures) largest = std::max(largest, number_or_zero(row, key));
  return largest;
}

using ProcessAndLevel = std::pair<std::string, std::string>;
using Sums = std::array<std::uint64_t, kMeasures.size()>;

Json limited_costs(const Json& costs, std::size_t most) {
  if (costs.size() <= most) return costs;
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::uint64_t> weights;
  for (const Json& row : costs) weights.push_back(largest_measure(row));
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return weights[i]; });
  Json kept = Json::array();
  std::map<ProcessAndLevel, Sums> rest;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Json& row = costs[order[i]];
    if (i < most) {
      kept.push_back(row);
      continue;
    }
    Sums& sums = rest[{text_or(row, "process", ""), text_or(row, "level", "")}];
    for (std::size_t m = 0; m < kMeasures.size(); ++m) {
      sums[m] += number_or_zero(row, kMeasures[m]);
    }
  }
  for (const auto& [key, sums] : rest) {
    Json row = {{"process", key.first},
                {"level", key.second.empty() ? Json() : Json(key.second)},
                {"owner", "other"},
                {"site", nullptr},
                {"stack", nullptr}};
    for (std::size_t m = 0; m < kMeasures.size(); ++m) row[kMeasures[m]] = sums[m];
    kept.push_back(std::move(row));
  }
  return kept;
}

// Every frame once, by its text.
class FrameTable {
 public:
  std::size_t index_of(const analyzer::rows::Frame& frame) {
    const std::string name = name_frame(frame);
    const std::string file = frame.file.value_or("");
    const std::uint64_t line = frame.line.value_or(0);
    const auto [found, added] = indexes_.try_emplace({name, file, line}, indexes_.size());
    if (added) {
      rows_.push_back(
          {{"name", name},
           {"file", file.empty() ? Json() : Json(file)},
           {"line", line == 0 ? Json() : Json(line)},
           {"kind", frame.language == analyzer::rows::Language::kPython ? "python" : "native"}});
    }
    return found->second;
  }
  Json rows() { return std::move(rows_); }

 private:
  std::map<std::tuple<std::string, std::string, std::uint64_t>, std::size_t> indexes_;
  Json rows_ = Json::array();
};

void add_stack_of(const Json& row, std::set<std::string>& wanted) {
  if (const auto id = text_in(row, "stack")) wanted.insert(*id);
}

std::set<std::string> wanted_stacks(const Json& report, const Json& costs) {
  std::set<std::string> wanted;
  for (const Json& row : costs) add_stack_of(row, wanted);
  for (const Json& row : report.at("findings")) add_stack_of(row, wanted);
  if (report.contains("blocks")) {
    for (const Json& row : report.at("blocks")) add_stack_of(row, wanted);
  }
  for (const char* const moments : {"peak", "oom"}) {
    for (const Json& moment : report.at(moments)) {
      for (const Json& row : moment.at("holders")) add_stack_of(row, wanted);
    }
  }
  return wanted;
}

}  // namespace

Json costs_with_stacks(const Json& report, std::size_t most) {
  Json costs = limited_costs(report.at("costs"), most);
  const std::set<std::string> wanted = wanted_stacks(report, costs);
  FrameTable frames;
  Json stacks = Json::object();
  for (const Json& row : report.at("stacks")) {
    const std::string id = text_or(row, "id", "");
    if (!wanted.contains(id)) continue;
    const analyzer::rows::Stack stack = analyzer::stack_of_json(row);
    Json indexes = Json::array();
    const auto readable = readable_frames(stack);
    for (auto frame = readable.rbegin(); frame != readable.rend(); ++frame) {
      indexes.push_back(frames.index_of(**frame));
    }
    stacks[id] = std::move(indexes);
  }
  return {{"costs", std::move(costs)}, {"frames", frames.rows()}, {"stacks", std::move(stacks)}};
}

}  // namespace gpumemtrace::tools
