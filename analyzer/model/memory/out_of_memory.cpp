// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/out_of_memory.hpp"

namespace gpumemtrace::analyzer {
namespace {

// True if the program called the same function at the same code address. Stacks are not compared:
// one allocator makes its attempts from several lines.
bool same_caller(const CallSite& left, const CallSite& right) {
  return left.caller == right.caller && left.api == right.api &&
         left.from_table == right.from_table;
}

}  // namespace

// A failure by the caller of the open incident is one more attempt; any other failure ends that
// incident and begins one. Returns true if the new one is the first of its kind.
bool OutOfMemory::failed(std::uint32_t writer, const OomIncident& failure) {
  const auto found = pending_.find(writer);
  if (found != pending_.end()) {
    OomIncident& open = found->second;
    if (same_caller(open.site, failure.site) && open.device == failure.device &&
        open.level == failure.level) {
      ++open.attempts;
      return false;
    }
    close(open, OomOutcome::kUnknown, open.start_ticks);
    pending_.erase(found);
  }
  OomIncident& open = pending_[writer];
  open = failure;
  open.attempts = 1;
  return has_snapshot_.insert({failure.level, failure.device, OomOutcome::kUnknown, failure.site})
      .second;
}

void OutOfMemory::set_snapshot(std::uint32_t writer, std::uint32_t snapshot) {
  const auto found = pending_.find(writer);
  if (found != pending_.end()) found->second.snapshot = snapshot;
}

void OutOfMemory::add_freed_bytes(std::uint32_t writer, std::uint64_t bytes) {
  const auto found = pending_.find(writer);
  if (found != pending_.end()) found->second.flushed_bytes += bytes;
}

void OutOfMemory::succeeded(std::uint32_t writer, const CallSite& site, std::int32_t device,
                            std::uint64_t bytes, std::uint64_t end_ticks) {
  const auto found = pending_.find(writer);
  if (found == pending_.end()) return;
  const OomIncident& open = found->second;
  if (!same_caller(open.site, site) || open.device != device || bytes < open.requested_bytes)
    return;
  close(open, OomOutcome::kRecovered, end_ticks);
  pending_.erase(found);
}

bool OutOfMemory::raised(std::uint32_t writer, const OomIncident& failure) {
  OomIncident incident = failure;
  const auto found = pending_.find(writer);
  if (found != pending_.end()) {
    incident.start_ticks = found->second.start_ticks;
    incident.attempts = found->second.attempts;
    incident.flushed_bytes = found->second.flushed_bytes;
    pending_.erase(found);
  }
  OomRow& row = close(incident, OomOutcome::kRaised, failure.time);
  last_raised_ = &row;
  return row.count == 1;
}

void OutOfMemory::finish() {
  for (const auto& [writer, open] : pending_) {
    close(open, OomOutcome::kUnknown, open.start_ticks);
  }
  pending_.clear();
}

OomRow& OutOfMemory::close(const OomIncident& incident, OomOutcome outcome,
                           std::uint64_t end_ticks) {
  OomRow& row = rows_[{incident.level, incident.device, outcome, incident.site}];
  // Incidents of several threads may end in another order than they began.
  if (row.count == 0 || incident.time < row.first.time) row.first = incident;
  row.outcome = outcome;
  ++row.count;
  row.attempts += incident.attempts;
  row.flushed_bytes += incident.flushed_bytes;
  if (end_ticks > incident.start_ticks) row.lost_ticks += end_ticks - incident.start_ticks;
  return row;
}

std::vector<OomRow> OutOfMemory::rows() const {
  std::vector<OomRow> rows;
  for (const auto& [key, row] : rows_) rows.push_back(row);
  return rows;
}

}  // namespace gpumemtrace::analyzer
