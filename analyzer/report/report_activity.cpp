// SPDX-License-Identifier: Apache-2.0
// CUPTI's reports: its state, the joins of its records with calls, and copies by stream.
#include <algorithm>
#include <string>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string_view name_of_mode(trace::ActivityMode mode) {
  switch (mode) {
    case trace::ActivityMode::kCopies:
      return "copies";
    case trace::ActivityMode::kFull:
      return "full";
    case trace::ActivityMode::kLost:
      return "lost";
    case trace::ActivityMode::kOff:
      break;
  }
  return "off";
}

std::string_view state_of(const ActivityStatus& status) {
  return is_collecting(status.mode) && status.is_shared ? "shared" : name_of_mode(status.mode);
}

rows::CuptiJoin join_row(const Activity& activity) {
  const JoinCounts& counts = activity.counts();
  rows::CuptiJoin join;
  join.calls = counts.calls;
  join.api_records = counts.api_records;
  join.joined_exact = counts.exact;
  join.joined_inferred = counts.inferred;
  join.unjoined = counts.all_unjoined();
  for (std::size_t i = 0; i < kUnjoinedReasons; ++i) {
    if (counts.unjoined[i] == 0) continue;
    join.unjoined_by_reason.emplace_back(name_of(static_cast<Unjoined>(i)), counts.unjoined[i]);
  }
  return join;
}

}  // namespace

rows::Cupti cupti_row(const ReportProcess& process) {
  const Activity& activity = process.model().activity();
  const ActivityStatus& status = activity.status();
  rows::Cupti row;
  if (!activity.is_on()) {
    row.state = "off";
    row.reason = "this trace holds no CUPTI records";
    return row;
  }
  row.state = state_of(status);
  row.reason = rows::text_or_none(status.reason);
  if (status.version != 0) row.version = std::to_string(status.version);
  if (status.widest_mode != trace::ActivityMode::kOff) {
    row.mode = name_of_mode(status.widest_mode);
    row.join = join_row(activity);
  }
  if (!activity.clocks().empty()) {
    row.clock_error_ns = process.duration_ns(
        std::max(activity.clocks().error_ticks(), activity.counts().largest_violation_ticks));
  }
  return row;
}

std::vector<rows::Stream> report_streams(const ReportContext& context) {
  std::vector<rows::Stream> list;
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [key, copies] : process.model().activity().streams()) {
      list.push_back({{process.id, context.device_id(process, key.device)},
                      key.context,
                      key.stream,
                      copies.count,
                      copies.bytes,
                      process.duration_ns(copies.gpu_ticks)});
    }
  }
  sort_rows(list, &rows::Stream::bytes);
  return list;
}

rows::OptionalNumber count_unjoined(const ReportContext& context) {
  rows::OptionalNumber count;
  for (const ReportProcess& process : context.processes()) {
    const Activity& activity = process.model().activity();
    if (activity.status().widest_mode == trace::ActivityMode::kOff) continue;
    count = count.value_or(0) + activity.counts().all_unjoined();
  }
  return count;
}

}  // namespace gpumemtrace::analyzer
