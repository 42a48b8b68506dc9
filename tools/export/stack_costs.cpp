// SPDX-License-Identifier: Apache-2.0
#include "tools/export/stack_costs.hpp"

#include <algorithm>

#include "analyzer/text/names.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/stack_text.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::Level;
using analyzer::rows::Cost;
using analyzer::rows::Report;

bool has_framework_cost(const Report& report, const CostMeasure& measure) {
  return std::ranges::any_of(report.costs, [&](const Cost& row) {
    return row.level == Level::kFramework && row.*measure.bytes != 0;
  });
}

// True if the export counts the cost. If the user named no level, it counts either the framework's
// blocks or all other levels, which contain these blocks, so that no byte counts twice.
bool is_wanted(const Cost& row, const StackExport& what, bool prefers_framework) {
  if (row.*what.measure.bytes == 0) return false;
  if (!what.level.empty()) return row.level && name_of(*row.level) == what.level;
  return what.measure.name == "copied" || (row.level == Level::kFramework) == prefers_framework;
}

using Stacks = std::map<std::string, const analyzer::rows::Stack*>;

// The layers of a model as frames; a cost without layers gets the frame "(no layer)".
NamedStack layers_of(const Cost& row) {
  NamedStack named;
  for (const std::string& layer : split(row.layers.value_or("(no layer)"), " > ")) {
    named.push_back({layer, {}, 0});
  }
  return named;
}

// The frames of a cost, outermost first; if there are none of the kind, one frame that names the
// holder of the memory.
NamedStack stack_of(const Report& report, const Cost& row, const Stacks& stacks, FrameKind frames) {
  if (frames == FrameKind::kLayers) return layers_of(row);
  const NamedStack holder = {{analyzer::name_holder(row.origin), {}, 0}};
  const auto stack = stacks.find(row.origin.stack.value_or(""));
  if (stack == stacks.end()) return holder;
  NamedStack named;
  for (const analyzer::rows::Frame* frame : readable_frames(report, *stack->second)) {
    if (frames == FrameKind::kUsers && !is_users_frame(*frame)) continue;
    named.push_back({name_frame(*frame), frame->file.value_or(""), frame->line.value_or(0)});
  }
  std::reverse(named.begin(), named.end());
  return named.empty() ? holder : named;
}

}  // namespace

BytesByStack bytes_by_stack(const Report& report, const StackExport& what,
                            const std::string& process) {
  Stacks stacks;
  for (const analyzer::rows::Stack& stack : report.stacks) stacks[stack.id] = &stack;
  const bool prefers_framework =
      what.measure.name != "leaked" && has_framework_cost(report, what.measure);
  BytesByStack bytes;
  for (const Cost& row : report.costs) {
    if (row.process != process || !is_wanted(row, what, prefers_framework)) continue;
    bytes[stack_of(report, row, stacks, what.frames)] += row.*what.measure.bytes;
  }
  return bytes;
}

BytesByStack bytes_by_stack(const Report& report, const StackExport& what) {
  if (report.processes.size() == 1) return bytes_by_stack(report, what, report.processes[0].id);
  BytesByStack all;
  for (const analyzer::rows::Process& process : report.processes) {
    for (const auto& [stack, bytes] : bytes_by_stack(report, what, process.id)) {
      NamedStack inside = {{process_title(process), {}, 0}};
      inside.insert(inside.end(), stack.begin(), stack.end());
      all[std::move(inside)] += bytes;
    }
  }
  return all;
}

std::string process_title(const analyzer::rows::Process& process) {
  const std::string rank = process.rank ? format_text(" (rank {})", *process.rank) : "";
  const std::string name = process.pid ? std::to_string(*process.pid) : std::string(process.id);
  return format_text("process {}{}", name, rank);
}

}  // namespace gpumemtrace::tools
