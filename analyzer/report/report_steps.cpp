// SPDX-License-Identifier: Apache-2.0
// The program's steps and named ranges.
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Blocks of the framework where there is one, else the driver's memory and pools.
bool counts_blocks(const ReportProcess& process) {
  return !process.model().framework().devices().empty();
}

void fill(rows::Interval& row, const ReportProcess& process, const Interval& interval) {
  const bool of_blocks = counts_blocks(process);
  const IntervalUse& use = of_blocks ? interval.framework : interval.driver;
  row.process = process.id;
  row.index = interval.index;
  row.start_ns = process.time_ns(interval.start);
  row.end_ns = process.time_ns(interval.end);
  row.peak_bytes = use.peak_bytes;
  row.live_bytes_at_end = use.live_bytes_at_end;
  row.allocations = use.allocations;
  row.transfers_bytes = interval.transfers_bytes;
  row.is_exact = !is_inexact(process, of_blocks ? Level::kFramework : Level::kDriver);
}

}  // namespace

std::vector<rows::Step> report_steps(const ReportContext& context) {
  std::vector<rows::Step> list;
  for (const ReportProcess& process : context.processes()) {
    const Steps& steps = process.model().steps();
    if (!steps.source()) continue;
    for (const Interval& step : steps.steps()) {
      rows::Step row;
      fill(row, process, step);
      row.is_inferred = *steps.source() == StepSource::kPeriod;
      row.source = name_of(*steps.source());
      list.push_back(std::move(row));
    }
  }
  return list;
}

std::vector<rows::Range> report_ranges(const ReportContext& context) {
  std::vector<rows::Range> list;
  for (const ReportProcess& process : context.processes()) {
    const Steps& steps = process.model().steps();
    for (const Interval& range : steps.ranges()) {
      rows::Range row;
      fill(row, process, range);
      row.name = steps.name_of_range(range);
      list.push_back(std::move(row));
    }
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
