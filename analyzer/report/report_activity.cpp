// SPDX-License-Identifier: Apache-2.0
// What CUPTI reported: its state, how its records were joined to calls, and copies by stream.
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

Json join_json(const Activity& activity) {
  const JoinCounts& counts = activity.counts();
  Json reasons = Json::object();
  for (std::size_t i = 0; i < kUnjoinedReasons; ++i) {
    if (counts.unjoined[i] != 0) {
      reasons[std::string(name_of(static_cast<Unjoined>(i)))] = counts.unjoined[i];
    }
  }
  return {{"calls", counts.calls},
          {"api_records", counts.api_records},
          {"joined_exact", counts.exact},
          {"joined_inferred", counts.inferred},
          {"unjoined", counts.all_unjoined()},
          {"unjoined_by_reason", std::move(reasons)}};
}

}  // namespace

Json cupti_json(const ReportProcess& process, Redaction& redaction) {
  const Activity& activity = process.model().activity();
  const ActivityStatus& status = activity.status();
  if (!activity.is_on()) {
    return {{"state", "off"},
            {"reason", "this trace holds no CUPTI records"},
            {"version", nullptr},
            {"mode", nullptr},
            {"clock_error_ns", nullptr},
            {"join", nullptr}};
  }
  const bool has_records = status.widest_mode != trace::ActivityMode::kOff;
  const std::uint64_t error_ticks =
      std::max(activity.clocks().error_ticks(), activity.counts().largest_violation_ticks);
  return {{"state", state_of(status)},
          {"reason", text_or_null(redaction.replace_paths(status.reason))},
          {"version", status.version == 0 ? Json(nullptr) : Json(std::to_string(status.version))},
          {"mode", has_records ? Json(name_of_mode(status.widest_mode)) : Json(nullptr)},
          {"clock_error_ns", activity.clocks().empty()
                                 ? Json(nullptr)
                                 : Json(process.process->clock().duration_ns(error_ticks))},
          {"join", has_records ? join_json(activity) : Json(nullptr)}};
}

Json report_streams(const ReportContext& context) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [key, copies] : process.model().activity().streams()) {
      rows.push_back({{"process", process.id},
                      {"device", context.device_id(process, key.device)},
                      {"context", key.context},
                      {"stream", key.stream},
                      {"count", copies.count},
                      {"bytes", copies.bytes},
                      {"gpu_time_ns", process.process->clock().duration_ns(copies.gpu_ticks)}});
    }
  }
  return sorted_rows(std::move(rows), "bytes");
}

Json count_unjoined(const ReportContext& context) {
  Json count = nullptr;
  for (const ReportProcess& process : context.processes()) {
    const Activity& activity = process.model().activity();
    if (activity.status().widest_mode == trace::ActivityMode::kOff) continue;
    count = activity.counts().all_unjoined() + (count.is_null() ? 0 : count.get<std::uint64_t>());
  }
  return count;
}

}  // namespace gpumemtrace::analyzer
