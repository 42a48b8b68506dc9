// SPDX-License-Identifier: Apache-2.0
// The program's steps, named ranges and marks.
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Blocks of the framework if there is one, else the driver's memory and pools.
bool counts_blocks(const ReportProcess& process) {
  return !process.model().memory().framework.devices().empty();
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

rows::RangesOfName sums_row(const ReportProcess& process, const rows::OptionalText& name,
                            const IntervalSums& sums) {
  const bool of_blocks = counts_blocks(process);
  const IntervalSums::Use& use = of_blocks ? sums.framework : sums.driver;
  return {process.id,
          name,
          sums.count,
          use.peak_bytes,
          use.allocated_bytes,
          static_cast<std::int64_t>(use.live_delta_bytes),
          !is_inexact(process, of_blocks ? Level::kFramework : Level::kDriver)};
}

}  // namespace

std::vector<rows::Step> report_steps(const ReportContext& context) {
  std::vector<rows::Step> list;
  for (const ReportProcess& process : context.processes()) {
    const Steps& steps = process.model().program().steps();
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
    const Steps& steps = process.model().program().steps();
    for (const Interval& range : steps.ranges()) {
      rows::Range row;
      fill(row, process, range);
      row.name = steps.name_of(range.name);
      list.push_back(std::move(row));
    }
  }
  return list;
}

std::vector<rows::RangesOfName> report_ranges_by_name(const ReportContext& context) {
  std::vector<rows::RangesOfName> list;
  for (const ReportProcess& process : context.processes()) {
    const IntervalsByName& sums = process.model().program().steps().ranges_by_name();
    for (const auto& [name, of_name] : sums.rows()) {
      list.push_back(sums_row(process, name, of_name));
    }
    if (sums.rest().count != 0) list.push_back(sums_row(process, std::nullopt, sums.rest()));
  }
  sort_rows(list, &rows::RangesOfName::peak_bytes);
  return list;
}

std::vector<rows::Mark> report_marks(const ReportContext& context) {
  std::vector<rows::Mark> list;
  for (const ReportProcess& process : context.processes()) {
    for (const NamedMark& mark : process.model().program().steps().marks().all()) {
      list.push_back({process.id, mark.name, process.known_time_ns(mark.time),
                      std::string(name_of(mark.source))});
    }
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
