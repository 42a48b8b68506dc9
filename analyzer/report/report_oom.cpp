// SPDX-License-Identifier: Apache-2.0
// Failures for want of memory.
#include <algorithm>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// By the driver's last sample, and the bytes that the process itself has taken or freed since.
rows::OptionalNumber device_free_bytes(const OomSnapshot& snapshot) {
  const DriverSample& sample = snapshot.sample;
  if (sample.time == 0 || sample.total_bytes == 0) return std::nullopt;
  const std::uint64_t taken = snapshot.parts.physical() - sample.physical_bytes;
  const std::uint64_t free = sample.free_bytes - taken;
  return free > sample.total_bytes ? std::nullopt : rows::OptionalNumber(free);
}

// The free memory that the failed request saw: inside the framework's segments if there are any,
// else on the device by the driver's last sample.
void add_free_memory(rows::Oom& row, const OomSnapshot& snapshot) {
  row.device_free_bytes = device_free_bytes(snapshot);
  if (snapshot.fragmentation && snapshot.fragmentation->reserved_bytes != 0) {
    row.free_bytes = snapshot.fragmentation->free_bytes;
    row.largest_free_bytes = snapshot.fragmentation->largest_free_bytes;
    const bool is_enough_in_sum = *row.free_bytes >= row.requested_bytes;
    row.verdict = is_enough_in_sum ? rows::OomVerdict::kFragmented : rows::OomVerdict::kExhausted;
    return;
  }
  row.free_bytes = row.device_free_bytes;
  if (row.free_bytes && *row.free_bytes < row.requested_bytes) {
    row.verdict = rows::OomVerdict::kExhausted;
  }
}

// True if the process got memory of the level after its only failure and came to its own end. The
// time of the last of several failures is not kept.
std::optional<bool> survived(const ReportProcess& process, const OomRow& failures) {
  if (process.end != rows::TraceEnd::kExit || failures.count != 1) return std::nullopt;
  const auto& groups = process.model().accounts().groups();
  return std::ranges::any_of(groups, [&](const Group& group) {
    return group.last_time > failures.first.time &&
           level_of(group.key.kind) == failures.first.level;
  });
}

// Fills in the numbers at the time of the first failure.
void add_snapshot(rows::Oom& row, const ReportContext& context, const ReportProcess& process,
                  const OomSnapshot& snapshot) {
  add_free_memory(row, snapshot);
  row.composition = compose_snapshot(context, process, snapshot);
  std::uint64_t total_bytes = 0;
  for (const auto& [holder, tally] : snapshot.holders) total_bytes += tally.bytes;
  row.holders = holder_rows(context.tally(process, snapshot.holders), total_bytes);
}

rows::Oom oom_row(const ReportContext& context, const ReportProcess& process,
                  const OomRow& failures) {
  const OomIncident& first = failures.first;
  auto row = context.row_on<rows::Oom>(process, first.device);
  row.level = first.level;
  row.time_ns = process.time_ns(first.time);
  row.step = process.model().program().steps().step_at(first.time);
  row.outcome = failures.outcome;
  row.survived = survived(process, failures);
  row.count = failures.count;
  row.attempts = failures.attempts;
  row.lost_ns = process.duration_ns(failures.lost_ticks);
  row.requested_bytes = first.requested_bytes;
  row.flushed_bytes = failures.flushed_bytes;
  if (first.snapshot != 0) {
    add_snapshot(row, context, process, process.model().snapshots()[first.snapshot - 1]);
  }
  row.origin = origin_of(context.identity_of_site(process, first.site));
  if (first.level == Level::kFramework) row.origin.owner = "pytorch";
  row.is_exact = !is_inexact(process, first.level);
  return row;
}

}  // namespace

std::vector<rows::Oom> report_oom(const ReportContext& context) {
  std::vector<rows::Oom> list;
  for (const ReportProcess& process : context.processes()) {
    for (const OomRow& failures : process.model().memory().out_of_memory.rows()) {
      list.push_back(oom_row(context, process, failures));
    }
  }
  sort_rows(list, &rows::Oom::requested_bytes);
  return list;
}

}  // namespace gpumemtrace::analyzer
