// SPDX-License-Identifier: Apache-2.0
// The program's steps and named ranges.
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Blocks of the framework where there is one, else the driver's memory and pools.
bool counts_blocks(const ReportProcess& process) {
  return !process.model().framework().devices().empty();
}

Json interval_json(const ReportProcess& process, const Interval& interval, std::uint64_t index,
                   bool inferred) {
  const IntervalUse& use = counts_blocks(process) ? interval.framework : interval.driver;
  Json row = {{"process", process.id},
              {"index", index},
              {"start_ns", process.time_ns(interval.start)},
              {"end_ns", process.time_ns(interval.end)},
              {"inferred", inferred},
              {"peak_bytes", use.peak_bytes},
              {"live_bytes_at_end", use.live_bytes_at_end},
              {"allocations", use.allocations},
              {"transfers_bytes", interval.transfers_bytes}};
  mark_inexact(row,
               is_inexact(process, counts_blocks(process) ? Level::kFramework : Level::kDriver));
  return row;
}

}  // namespace

Json report_steps(const ReportContext& context) {
  Json rows = Json::array();
  for (const ReportProcess& process : context.processes()) {
    const Steps& steps = process.model().steps();
    if (!steps.source()) continue;
    const bool inferred = *steps.source() == StepSource::kPeriod;
    for (const Interval& step : steps.steps()) {
      Json row = interval_json(process, step, step.index, inferred);
      row["source"] = name_of(*steps.source());
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

Json report_ranges(const ReportContext& context) {
  Json rows = Json::array();
  for (const ReportProcess& process : context.processes()) {
    const Steps& steps = process.model().steps();
    for (const Interval& range : steps.ranges()) {
      Json row = interval_json(process, range, range.index, false);
      row["name"] =
          context.redaction().replace(Secret::kRange, std::string(steps.name_of_range(range)));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

Json step_json(const ReportProcess& process, std::uint64_t model_time) {
  const std::optional<std::uint64_t> step = process.model().steps().step_at(model_time);
  return step ? Json(*step) : Json(nullptr);
}

}  // namespace gpumemtrace::analyzer
