// SPDX-License-Identifier: Apache-2.0
// Failures for want of memory.
#include <algorithm>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string_view name_of(OomOutcome outcome) {
  switch (outcome) {
    case OomOutcome::kRaised:
      return "raised";
    case OomOutcome::kRecovered:
      return "recovered";
    case OomOutcome::kUnknown:
      break;
  }
  return "unknown";
}

// Free memory as the one who failed saw it: inside the framework's segments where there are any,
// else on the device by the driver's last word.
struct FreeMemory {
  Json free_bytes = nullptr;
  Json device_free_bytes = nullptr;
  Json largest_free_bytes = nullptr;
  std::string_view verdict = "unknown";
};

// By the driver's last word, and what the process itself has taken or given back since.
Json device_free_bytes(const OomSnapshot& snapshot) {
  const DriverSample& sample = snapshot.sample;
  if (sample.time == 0 || sample.total_bytes == 0) return nullptr;
  const std::uint64_t taken = snapshot.parts.physical() - sample.physical_bytes;
  const std::uint64_t free = sample.free_bytes - taken;
  return free > sample.total_bytes ? Json(nullptr) : Json(free);
}

FreeMemory free_memory_of(const OomSnapshot& snapshot, std::uint64_t requested_bytes) {
  FreeMemory result;
  result.device_free_bytes = device_free_bytes(snapshot);
  if (snapshot.fragmentation && snapshot.fragmentation->reserved_bytes != 0) {
    result.free_bytes = snapshot.fragmentation->free_bytes;
    result.largest_free_bytes = snapshot.fragmentation->largest_free_bytes;
    const bool enough_in_pieces = snapshot.fragmentation->free_bytes >= requested_bytes;
    result.verdict = enough_in_pieces ? "fragmented" : "exhausted";
    return result;
  }
  result.free_bytes = result.device_free_bytes;
  if (result.free_bytes.is_number() && result.free_bytes < requested_bytes) {
    result.verdict = "exhausted";
  }
  return result;
}

Json holders_of(const ReportContext& context, const ReportProcess& process,
                const OomSnapshot& snapshot) {
  std::uint64_t total_bytes = 0;
  for (const auto& [holder, tally] : snapshot.holders) total_bytes += tally.bytes;
  return holders_json(context.tally(process, snapshot.holders), total_bytes);
}

Json oom_row(const ReportContext& context, const ReportProcess& process, const OomRow& row) {
  const OomIncident& first = row.first;
  const OomSnapshot* snapshot =
      first.snapshot == 0 ? nullptr : &process.model().snapshots()[first.snapshot - 1];
  const FreeMemory free =
      snapshot == nullptr ? FreeMemory{} : free_memory_of(*snapshot, first.requested_bytes);
  Identity identity = context.identity_of_site(process, first.site);
  if (first.level == Level::kFramework) identity.owner = "pytorch";
  Json json = {
      {"process", process.id},
      {"device", context.device_id(process, first.device)},
      {"level", name_of(first.level)},
      {"time_ns", process.time_ns(first.time)},
      {"step", step_json(process, first.time)},
      {"outcome", name_of(row.outcome)},
      {"count", row.count},
      {"attempts", row.attempts},
      {"lost_ns", process.process->clock().duration_ns(row.lost_ticks)},
      {"requested_bytes", first.requested_bytes},
      {"free_bytes", free.free_bytes},
      {"largest_free_bytes", free.largest_free_bytes},
      {"device_free_bytes", free.device_free_bytes},
      {"flushed_bytes", row.flushed_bytes},
      {"verdict", free.verdict},
      {"composition",
       snapshot == nullptr ? Json(nullptr) : compose_snapshot(context, process, *snapshot)},
      {"holders", snapshot == nullptr ? Json::array() : holders_of(context, process, *snapshot)},
      {"owner", owner_json(identity)},
      {"site", site_json(identity)},
      {"stack", stack_json(identity)}};
  mark_inexact(json, is_inexact(process, first.level));
  return json;
}

}  // namespace

Json report_oom(const ReportContext& context) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    for (const OomRow& row : process.model().out_of_memory().rows()) {
      rows.push_back(oom_row(context, process, row));
    }
  }
  return sorted_rows(std::move(rows), "requested_bytes");
}

}  // namespace gpumemtrace::analyzer
