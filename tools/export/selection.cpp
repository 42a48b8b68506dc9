// SPDX-License-Identifier: Apache-2.0
#include "tools/export/selection.hpp"

#include <vector>

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

bool is_in(const TimeSpan& span, rows::JobTime time_ns) {
  return span.from_ns <= time_ns && time_ns <= span.to_ns;
}
// Rows without a time belong to the whole run.
bool is_in(const TimeSpan& span, const rows::OptionalTime& time_ns) {
  return !time_ns || is_in(span, *time_ns);
}

template <class Row>
void keep_times(std::vector<Row>& list, const TimeSpan& span) {
  std::erase_if(list, [&](const Row& row) { return !is_in(span, row.time_ns); });
}

// Removes rows with a start and an end that do not overlap the span; both ends are inclusive.
template <class Row>
void keep_stretches(std::vector<Row>& list, const TimeSpan& span) {
  std::erase_if(list, [&](const Row& row) {
    return (row.start_ns && *row.start_ns > span.to_ns) ||
           (row.end_ns && *row.end_ns < span.from_ns);
  });
}

}  // namespace

void keep_time(rows::Report& report, const TimeSpan& span) {
  if (report.allocations) {
    for (rows::AllocationHistory& history : *report.allocations) {
      // An allocation that ends at from_ns is not live at from_ns.
      std::erase_if(history.allocations, [&](const rows::Allocation& row) {
        return row.start_ns > span.to_ns || (row.end_ns && *row.end_ns <= span.from_ns);
      });
    }
  }
  keep_stretches(report.steps, span);
  keep_stretches(report.ranges, span);
  keep_times(report.peak, span);
  keep_times(report.card_peaks, span);
  keep_times(report.marks, span);
  keep_times(report.oom, span);
  keep_times(report.findings, span);
}

void end_lives_at(rows::Report& report, std::uint64_t end_ns) {
  for (rows::AllocationHistory& history : *report.allocations) {
    for (rows::Allocation& row : history.allocations) {
      if (row.end_ns && *row.end_ns > end_ns) row.end_ns.reset();
    }
  }
}

void keep_level(rows::Report& report, analyzer::Level level) {
  const auto is_other = [&](const auto& row) { return row.level != level; };
  if (report.allocations) {
    for (rows::AllocationHistory& history : *report.allocations) {
      std::erase_if(history.allocations, is_other);
    }
  }
  std::erase_if(report.peak, is_other);
  std::erase_if(report.timeline, is_other);
}

void take_costs_of_moment(rows::Report& report) {
  report.costs.clear();
  for (const rows::BlockAt& block : *report.blocks) {
    if (block.at != rows::BlocksAt::kTime) continue;
    rows::Cost cost;
    cost.process = block.process;
    cost.level = block.level;
    cost.layers = block.layers;
    cost.origin = block.origin;
    cost.peak_bytes = block.bytes;
    report.costs.push_back(std::move(cost));
  }
}

}  // namespace gpumemtrace::tools
